"""Which JPEG files are refused, and in which words."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from activities.imaging.errors import UnfitImageError
from activities.imaging.labels.jpeg import remove_from_jpeg
from activities.imaging.labels.jpeg_coefficients import read_coefficients, write_coefficients
from activities.imaging.labels.jpeg_stream import read_stream
from activities.imaging.labels.mark import Mark

MARK = Mark(4, 4, np.full((8, 8), 0.5, np.float32), np.full((8, 8, 3), 255, np.float32))


def jpeg(mode: str = "RGB", **options: Any) -> bytes:
    ramp = np.add.outer(np.arange(48), np.arange(64)).astype(np.uint8)
    file = BytesIO()
    Image.fromarray(ramp).convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


def with_frame(kind: int = 0xC0, precision: int = 8, size: bytes | None = None) -> bytes:
    """A JPEG whose frame header states something else."""
    data = bytearray(jpeg())
    at = data.index(b"\xff\xc0")
    data[at + 1], data[at + 4] = kind, precision
    if size is not None:
        data[at + 5 : at + 9] = size
    return bytes(data)


UNFIT = {
    "not a JPEG image": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "damaged": b"\xff\xd8\xff" + bytes(1000),
    "CMYK": jpeg("CMYK"),
    "12 bits": with_frame(precision=12),
    "Lossless": with_frame(kind=0xC3),
    "arithmetic": with_frame(kind=0xC9),
    "unfit size": with_frame(size=b"\x80\x00\x80\x00"),
    "cut off": jpeg()[:-40],
    "store RGB": jpeg(keep_rgb=True),
}


@pytest.mark.parametrize("words", UNFIT)
def test_unfit_files_are_refused_by_name(words: str) -> None:
    with pytest.raises(UnfitImageError, match=words):
        remove_from_jpeg(UNFIT[words], MARK, lambda step, steps: None)


@pytest.mark.parametrize("options", [{}, {"progressive": True}], ids=["baseline", "progressive"])
def test_a_file_cut_anywhere_is_refused(options: dict[str, Any]) -> None:
    whole = jpeg(**options)
    for length in range(0, len(whole) - 1, 37):
        with pytest.raises(UnfitImageError):
            remove_from_jpeg(whole[:length], MARK, lambda step, steps: None)


def test_random_damage_is_refused_or_edited_but_never_crashes() -> None:
    random = np.random.default_rng(3)
    whole = jpeg(quality=95)
    outcomes = set()
    for _ in range(60):
        data = bytearray(whole)
        for at in random.integers(2, len(data), 4):
            data[at] = random.integers(0, 256)
        try:
            removed = remove_from_jpeg(bytes(data), MARK, lambda step, steps: None)
            outcomes.add(Image.open(BytesIO(removed)).format)
        except UnfitImageError:
            outcomes.add("refused")
    assert outcomes == {"JPEG", "refused"}


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("progressive", [False, True])
def test_coefficients_survive_being_written(mode: str, progressive: bool) -> None:
    data = jpeg(mode, progressive=progressive)
    stream = read_stream(data)
    written = write_coefficients(stream, read_coefficients(stream)[0])
    before, after = Image.open(BytesIO(data)), Image.open(BytesIO(written))
    assert np.array_equal(np.asarray(before), np.asarray(after))
    assert before.size == after.size


def test_fill_bytes_before_markers_are_skipped() -> None:
    data = jpeg()
    padded = data[:2] + b"\xff\xff" + data[2:]
    assert read_stream(padded).frame == read_stream(data).frame
