"""How well a visible label comes off photographs, beside plain and general methods.

    python -m benchmarks.label_removal [--quick]

Photographs at their native resolution, from scikit-image's and scikit-learn's wheels, cropped, with
a mark of 250 × 50 pixels: white text with a dark outline. As PNG, and as the first JPEG encode
(4:2:0) after the mark was drawn. `floor` is the unmarked picture through the same encode: no JPEG
of the same tables can be expected to be better. `what is left` is the unmarked picture through an
encode whose tables are coarser by the factor by which the mark weakens the picture: opacity 0.8
leaves a fifth of it, quantised as finely as the whole was. The constants of the removal were tuned
on one half of the photographs; the halves are reported apart.

Needs opencv-python-headless, scikit-image and scikit-learn, for comparison and photographs only.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from skimage.metrics import structural_similarity
from skimage.restoration import inpaint_biharmonic

from activities.imaging.labels.fill import fill_hidden
from activities.imaging.labels.inverse import remove_by_inverse
from activities.imaging.labels.jpeg import remove_from_jpeg
from activities.imaging.labels.mark import Floats, Mark

Pixels = NDArray[np.uint8]
_similarity: Callable[..., Any] = structural_similarity
Method = Callable[[Pixels, bytes, Mark], Pixels]

TUNED_ON = ("astronaut", "coffee", "motorcycle_left", "flower", "grass", "ihc")
HELD_OUT = ("chelsea", "rocket", "camera", "china", "retina", "hubble_deep_field", "brick")
WIDTH, HEIGHT = 384, 176
MARK_WIDTH, MARK_HEIGHT = 250, 50
# On no grid: neither of blocks nor of MCUs.
LEFT, TOP = 67, 59
OPACITIES = (0.3, 0.5, 0.8, 1.0)
QUALITIES = (None, 90, 75)
# As deep as it gets drawn before it is scaled down.
_OVERSAMPLING = 4


def drawn_mark(opacity: float) -> Mark:
    """The label, in Pillow's own font."""
    outlined, letters = _coverage(stroke=2), _coverage(stroke=0)
    colour = 20 + 235 * np.divide(letters, outlined, out=np.zeros_like(letters), where=outlined > 0)
    whole: Floats = np.repeat(np.clip(colour, 0, 255)[..., None], 3, axis=-1)
    return Mark(LEFT, TOP, outlined * np.float32(opacity), whole)


def _coverage(stroke: int) -> Floats:
    size = MARK_WIDTH * _OVERSAMPLING, MARK_HEIGHT * _OVERSAMPLING
    image = Image.new("L", size)
    font = ImageFont.load_default(size=36 * _OVERSAMPLING)
    ImageDraw.Draw(image).text(
        (size[0] // 2, size[1] // 2),
        "AI generated",
        font=font,
        fill=255,
        anchor="mm",
        stroke_width=stroke * _OVERSAMPLING,
    )
    small = image.resize((MARK_WIDTH, MARK_HEIGHT), Image.Resampling.BOX)
    return (np.asarray(small) / 255).astype(np.float32)


def crops(names: tuple[str, ...], each: int) -> list[Pixels]:
    """`each` crops of every photograph that is installed, always the same."""
    found = {path.stem: path for path in _photographs()}
    result: list[Pixels] = []
    for name in names:
        if name not in found:
            continue
        image = np.asarray(Image.open(found[name]).convert("RGB"))
        random = np.random.default_rng(sum(map(ord, name)))
        for _ in range(each):
            left = int(random.integers(0, image.shape[1] - WIDTH))
            top = int(random.integers(0, image.shape[0] - HEIGHT))
            result.append(image[top : top + HEIGHT, left : left + WIDTH])
    return result


def _photographs() -> list[Path]:
    paths: list[Path] = []
    for package, folder in (("skimage", "data"), ("sklearn", "datasets/images")):
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            inside = Path(spec.origin).parent / folder
            paths += [path for path in inside.iterdir() if path.suffix in (".png", ".jpg")]
    return paths


def marked(pixels: Pixels, mark: Mark) -> Pixels:
    """The photograph with the mark drawn on it."""
    result = pixels.copy()
    left, top, right, bottom = mark.box
    box = mark.over(pixels[top:bottom, left:right].astype(np.float32))
    result[top:bottom, left:right] = np.rint(box).astype(np.uint8)
    return result


def encoded(pixels: Pixels, quality: int | None) -> bytes:
    """A PNG, or a JPEG of this quality."""
    file = BytesIO()
    if quality is None:
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    else:
        Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return file.getvalue()


def decoded(data: bytes) -> Pixels:
    """Its pixels, (height, width, 3)."""
    return np.array(Image.open(BytesIO(data)).convert("RGB"))


def encoded_coarser(pixels: Pixels, quality: int, factor: float) -> bytes:
    """A JPEG whose quantisation tables are those of this quality, multiplied."""
    tables = Image.open(BytesIO(encoded(pixels, quality))).quantization  # type: ignore[attr-defined]
    coarser = [[min(255, round(step * factor)) for step in tables[key]] for key in sorted(tables)]
    file = BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", qtables=coarser, subsampling="4:2:0")
    return file.getvalue()


def visible(mark: Mark, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Pixels that the mark changes noticeably, (height, width) of the image."""
    result = np.zeros(shape[:2], np.bool_)
    left, top, right, bottom = mark.box
    result[top:bottom, left:right] = mark.alpha > 0.01
    return result


def plain_inverse(pixels: Pixels, data: bytes, mark: Mark) -> Pixels:
    """The blending undone, pixel by pixel."""
    result = pixels.copy()
    left, top, right, bottom = mark.box
    alpha = mark.alpha[..., None]
    box = (pixels[top:bottom, left:right] - alpha * mark.colour) / np.maximum(1 - alpha, 0.02)
    result[top:bottom, left:right] = np.rint(np.clip(box, 0, 255)).astype(np.uint8)
    return result


def telea(pixels: Pixels, data: bytes, mark: Mark) -> Pixels:
    """OpenCV's inpainting after A. Telea."""
    hidden = visible(mark, pixels.shape).astype(np.uint8)
    return np.asarray(cv2.inpaint(pixels, hidden, 3, cv2.INPAINT_TELEA), np.uint8)


def navier_stokes(pixels: Pixels, data: bytes, mark: Mark) -> Pixels:
    """OpenCV's inpainting after M. Bertalmio."""
    hidden = visible(mark, pixels.shape).astype(np.uint8)
    return np.asarray(cv2.inpaint(pixels, hidden, 3, cv2.INPAINT_NS), np.uint8)


def biharmonic(pixels: Pixels, data: bytes, mark: Mark) -> Pixels:
    """scikit-image's biharmonic inpainting."""
    filled = inpaint_biharmonic(pixels, visible(mark, pixels.shape), channel_axis=-1)
    result: Pixels = np.rint(np.clip(filled, 0, 1) * 255).astype(np.uint8)
    return result


def ours(pixels: Pixels, data: bytes, mark: Mark) -> Pixels:
    """This service's removal, from the file to the pixels of the new file."""
    if data.startswith(b"\x89PNG"):
        return remove_by_inverse(pixels, mark, fill_hidden).pixels
    return decoded(remove_from_jpeg(data, mark, lambda step, steps: None))


METHODS: dict[str, Method] = {
    "plain inverse": plain_inverse,
    "Telea": telea,
    "Navier-Stokes": navier_stokes,
    "biharmonic": biharmonic,
    "ours": ours,
}


class Scores:
    """PSNR in the mark, SSIM of the box and seconds, of one method over many photographs."""

    def __init__(self) -> None:
        self.psnr: list[float] = []
        self.ssim: list[float] = []
        self.seconds: list[float] = []

    def add(self, result: Pixels, truth: Pixels, mark: Mark, seconds: float) -> None:
        """Of one photograph."""
        inside = visible(mark, truth.shape)
        error = float(np.mean((result[inside].astype(np.float64) - truth[inside]) ** 2))
        left, top, right, bottom = mark.box
        boxes = result[top:bottom, left:right], truth[top:bottom, left:right]
        self.psnr.append(float(10 * np.log10(255**2 / max(error, 1e-3))))
        self.ssim.append(float(_similarity(*boxes, channel_axis=-1)))
        self.seconds.append(seconds)


def measure(photographs: list[Pixels], opacity: float, quality: int | None) -> dict[str, Scores]:
    """Every method on every photograph."""
    mark = drawn_mark(opacity)
    scores: defaultdict[str, Scores] = defaultdict(Scores)
    for truth in photographs:
        data = encoded(marked(truth, mark), quality)
        pixels = decoded(data)
        for name, method in METHODS.items():
            began = time.perf_counter()
            result = method(pixels, data, mark)
            scores[name].add(result, truth, mark, time.perf_counter() - began)
        if quality is not None:
            scores["floor"].add(decoded(encoded(truth, quality)), truth, mark, 0)
        if quality is not None and opacity < 1:
            left = encoded_coarser(truth, quality, 1 / (1 - opacity))
            scores["what is left"].add(decoded(left), truth, mark, 0)
    return scores


def show(photographs: list[Pixels], opacity: float, quality: int | None) -> None:
    """One table."""
    scores = measure(photographs, opacity, quality)
    own = np.mean(scores["ours"].psnr)
    print(f"\n{'PNG' if quality is None else f'JPEG {quality}'}, opacity {opacity}")
    for name, score in scores.items():
        mean, gain = np.mean(score.psnr), own - np.mean(score.psnr)
        print(
            f"  {name:14} {mean:5.1f} dB  worst {min(score.psnr):5.1f}  "
            f"SSIM {np.mean(score.ssim):.3f}  {np.median(score.seconds):6.3f} s  "
            f"ours {gain:+5.1f} dB, error × {10 ** (-gain / 20):.2f}"
        )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="held-out half, two opacities")
    quick = parser.parse_args().quick
    halves = {"held out": HELD_OUT} if quick else {"tuned on": TUNED_ON, "held out": HELD_OUT}
    for half, names in halves.items():
        photographs = crops(names, 1 if quick else 2)
        print(f"\n== {half}: {len(photographs)} crops of {WIDTH} × {HEIGHT}")
        for quality in QUALITIES:
            for opacity in (0.5, 0.8) if quick else OPACITIES:
                show(photographs, opacity, quality)


if __name__ == "__main__":
    main()
