"""Removing a mark from JPEG files: what must stay, what must get better, and who may stop it."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from activities.imaging.labels.jpeg import remove_from_jpeg
from activities.imaging.labels.jpeg_coefficients import Coefficients, read_coefficients
from activities.imaging.labels.jpeg_stream import Stream, read_stream
from activities.imaging.labels.mark import Mark

Pixels = NDArray[np.uint8]


class StoppedError(Exception):
    """What a caller raises to stop the work."""


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


def plainly_undone(data: bytes, mark: Mark) -> NDArray[np.float32]:
    """The blending undone on decoded pixels."""
    result = decoded(data).copy()
    left, top, right, bottom = mark.box
    alpha = mark.alpha[..., None]
    box = (result[top:bottom, left:right] - alpha * mark.colour) / np.maximum(1 - alpha, 0.02)
    result[top:bottom, left:right] = np.clip(box, 0, 255)
    return result


def ignore(step: int, steps: int) -> None:
    """Let the work go on."""


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


@pytest.mark.parametrize(
    ("opacity", "quality", "margin"), [(0.5, 90, 7.0), (0.5, 75, 7.0), (0.8, 90, 14.0)]
)
def test_removal_is_far_better_than_undoing_the_blending(
    opacity: float, quality: int, margin: float
) -> None:
    truth, mark = photograph(96, 160), striped_mark(opacity, 37, 29)
    data = encoded(marked(truth, mark), quality=quality)
    removed = decoded(remove_from_jpeg(data, mark, ignore))
    assert psnr(removed, truth, mark) > psnr(plainly_undone(data, mark), truth, mark) + margin


def test_an_opaque_mark_is_filled_from_its_surroundings() -> None:
    truth, mark = photograph(96, 160), striped_mark(1.0, 37, 29)
    data = encoded(marked(truth, mark))
    removed = decoded(remove_from_jpeg(data, mark, ignore))
    assert psnr(removed, truth, mark) > 30
    assert psnr(decoded(data), truth, mark) < 10


ENCODINGS: dict[str, Callable[[Pixels], bytes]] = {
    "full chroma": lambda pixels: encoded(pixels, subsampling=0),
    "half chroma": lambda pixels: encoded(pixels, subsampling=1),
    "quarter chroma": lambda pixels: encoded(pixels, subsampling=2),
    "grey": lambda pixels: encoded(pixels, mode="L"),
    "progressive": lambda pixels: encoded(pixels, progressive=True),
    "restart markers": lambda pixels: encoded(pixels, restart_marker_blocks=3),
    "optimised": lambda pixels: encoded(pixels, optimize=True),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("left_top", [(0, 0), (42, 30), (61, 53)])
def test_only_blocks_under_the_mark_change(encoding: str, left_top: tuple[int, int]) -> None:
    truth, mark = photograph(83, 151), striped_mark(0.5, *left_top)
    data = ENCODINGS[encoding](marked(truth, mark))
    removed = remove_from_jpeg(data, mark, ignore)
    before, after = coefficients_of(data), coefficients_of(removed)
    for plane, (old, new) in enumerate(zip(before, after, strict=True)):
        touched = touched_blocks(plane, mark, read_stream(data), old.shape)
        assert np.array_equal(old[~touched], new[~touched])
        assert not np.array_equal(old[touched], new[touched])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_pixels_away_from_the_mark_decode_the_same(encoding: str) -> None:
    truth, mark = photograph(83, 151), striped_mark(0.5, 42, 30)
    data = ENCODINGS[encoding](marked(truth, mark))
    changed = (decoded(remove_from_jpeg(data, mark, ignore)) != decoded(data)).any(axis=-1)
    # MCUs are 8 or 16 pixels; where chroma is subsampled, decoders blend one pixel across.
    blended = encoding in {"half chroma", "quarter chroma", "progressive", "restart markers"}
    blended = blended or encoding == "optimised"
    wide = 16 if blended else 8
    high = 16 if blended and encoding != "half chroma" else 8
    left, top, right, bottom = mark.box
    ring = int(blended)
    inside = np.zeros_like(changed)
    inside[
        top // high * high - ring : -(-bottom // high) * high + ring,
        left // wide * wide - ring : -(-right // wide) * wide + ring,
    ] = True
    assert changed.any()
    assert not changed[~inside].any()


@pytest.mark.parametrize("size", [(83, 151), (49, 97), (31, 90)])
def test_marks_at_the_border_of_odd_sizes_are_removed(size: tuple[int, int]) -> None:
    truth = photograph(*size)
    mark = striped_mark(0.5, size[1] - 90, size[0] - 30)
    data = encoded(marked(truth, mark))
    removed = decoded(remove_from_jpeg(data, mark, ignore))
    assert psnr(removed, truth, mark) > psnr(plainly_undone(data, mark), truth, mark) + 5


def test_tables_sampling_and_metadata_stay_byte_for_byte() -> None:
    exif = Image.Exif()
    exif[0x010E] = "a picture"
    options: dict[str, Any] = {
        "exif": exif.tobytes(),
        "icc_profile": b"profile" * 40,
        "comment": b"note",
    }
    mark = striped_mark(0.5, 42, 30)
    data = encoded(marked(photograph(96, 160), mark), quality=83, **options) + b"after the image"
    before, after = read_stream(data), read_stream(remove_from_jpeg(data, mark, ignore))
    assert [s for s in after.segments if s.is_metadata] == [
        s for s in before.segments if s.is_metadata
    ]
    assert len([s for s in after.segments if s.is_metadata]) >= 4
    assert after.frame == before.frame
    assert after.trailer == b"after the image"
    tables = read_coefficients(before)[1], read_coefficients(after)[1]
    assert np.array_equal(*tables)


def test_an_invisible_mark_changes_no_coefficient() -> None:
    data = encoded(photograph(64, 128))
    removed = remove_from_jpeg(data, striped_mark(0.0, 10, 10), ignore)
    for old, new in zip(coefficients_of(data), coefficients_of(removed), strict=True):
        assert np.array_equal(old, new)


def test_each_step_is_reported_and_what_is_raised_there_stops_the_work() -> None:
    mark = striped_mark(0.5, 10, 10)
    data = encoded(marked(photograph(64, 128), mark))
    seen: list[tuple[int, int]] = []

    def stop_at_second(step: int, steps: int) -> None:
        seen.append((step, steps))
        if step == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        remove_from_jpeg(data, mark, stop_at_second)
    total = seen[0][1]
    assert seen == [(1, total), (2, total)]
    assert total > 2
    seen.clear()
    remove_from_jpeg(data, mark, lambda step, steps: seen.append((step, steps)))
    assert seen == [(step + 1, total) for step in range(total)]


def test_a_mark_outside_the_image_is_an_error() -> None:
    with pytest.raises(ValueError, match="not inside"):
        remove_from_jpeg(encoded(photograph(64, 96)), striped_mark(0.5, 10, 10), ignore)
