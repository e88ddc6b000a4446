"""JPEG files of all kinds, a picture and a mark for them, and what is inside of them."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from activities.imaging.labels.jpeg_coefficients import Coefficients, read_coefficients
from activities.imaging.labels.jpeg_stream import Stream, read_stream
from activities.imaging.labels.mark import Mark

Pixels = NDArray[np.uint8]


def photograph(height: int, width: int) -> Pixels:
    """Shapes, shades and a fine grain, always the same."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    random = np.random.default_rng(7)
    shade = 120 + 50 * np.sin(x / 37 + y / 53) + 30 * np.cos(y / 19)
    shade += 40 * ((x - width / 3) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2)
    grain = random.normal(0, 2, (height, width))
    colours = [shade + grain, 0.8 * shade + 20 + grain, 200 - 0.5 * shade + grain]
    pixels: Pixels = np.clip(np.stack(colours, axis=-1), 0, 255).astype(np.uint8)
    return pixels


def striped_mark(opacity: float, left: int, top: int, width: int = 90, height: int = 30) -> Mark:
    """White bars with dark edges: thin as letters are."""
    x = np.arange(width)
    bar = np.clip(3 - np.abs(x % 15 - 7), 0, 1).astype(np.float32)
    colour = np.where(np.abs(x % 15 - 7) < 2, 255, 20).astype(np.float32)
    alpha = np.tile(opacity * bar, (height, 1))
    return Mark(left, top, alpha, np.tile(colour[:, None], (height, 1, 3)))


def marked(pixels: Pixels, mark: Mark) -> Pixels:
    result = pixels.copy()
    left, top, right, bottom = mark.box
    box = mark.over(pixels[top:bottom, left:right].astype(np.float32))
    result[top:bottom, left:right] = np.rint(box).astype(np.uint8)
    return result


def encoded(pixels: Pixels, mode: str = "RGB", **options: Any) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()


def decoded(data: bytes) -> NDArray[np.float32]:
    return np.asarray(Image.open(BytesIO(data)).convert("RGB"), np.float32)


def psnr(image: NDArray[np.float32], truth: Pixels, mark: Mark) -> float:
    """In dB, over the marked pixels."""
    left, top, right, bottom = mark.box
    error = (image - truth)[top:bottom, left:right][mark.alpha > 0]
    return float(10 * np.log10(255**2 / np.mean(error**2)))


ENCODINGS: dict[str, Callable[[Pixels], bytes]] = {
    "full chroma": lambda pixels: encoded(pixels, subsampling=0),
    "half chroma": lambda pixels: encoded(pixels, subsampling=1),
    "quarter chroma": lambda pixels: encoded(pixels, subsampling=2),
    "grey": lambda pixels: encoded(pixels, mode="L"),
    "progressive": lambda pixels: encoded(pixels, progressive=True),
    "restart markers": lambda pixels: encoded(pixels, restart_marker_blocks=3),
    "optimised": lambda pixels: encoded(pixels, optimize=True),
}


def touched_blocks(
    plane: int, mark: Mark, stream: Stream, shape: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Blocks of a plane in MCUs under the mark's box, (rows, columns)."""
    frame, component = stream.frame, stream.frame.components[plane]
    left, top, right, bottom = mark.box
    wide, high = 8 * frame.across, 8 * frame.down
    touched = np.zeros(shape[:2], np.bool_)
    touched[
        top // high * component.down : -(-bottom // high) * component.down,
        left // wide * component.across : -(-right // wide) * component.across,
    ] = True
    return touched


def coefficients_of(data: bytes) -> list[Coefficients]:
    return read_coefficients(read_stream(data))[0]
