"""An image that carries a label shows nothing without it, in no corner of its file."""

import io
import struct
from collections.abc import Callable

import pytest
from PIL import Image, JpegImagePlugin

from activities.imaging.inspection import inspect_image
from activities.imaging.provenance.previews import without_previews
from activities.label_settings import LabelSettings
from activities.models import GenerationParameters
from tests.activities.jpeg_files import encoded, photograph

PIXELS = photograph(96, 160)
PREVIEW = encoded(PIXELS[::2, ::2])
_JPEG_OFFSET, _JPEG_LENGTH = 0x0201, 0x0202


def exif_with_preview(order: str = "<") -> bytes:
    """A TIFF that names its software, and has the preview in its second directory."""
    software = struct.pack(order + "HHI4s", 0x0131, 2, 4, b"cam\0")
    first = struct.pack(order + "H", 1) + software
    second_at = 8 + len(first) + 4
    second = struct.pack(order + "H", 2)
    second += struct.pack(order + "HHII", _JPEG_OFFSET, 4, 1, second_at + 30)
    second += struct.pack(order + "HHII", _JPEG_LENGTH, 4, 1, len(PREVIEW))
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    return head + first + struct.pack(order + "I", second_at) + second + bytes(4) + PREVIEW


def file_with_exif(kind: str, tiff: bytes) -> bytes:
    """A picture with this EXIF."""
    file = io.BytesIO()
    options = {"lossless": True} if kind == "WEBP" else {}
    Image.fromarray(PIXELS).save(file, kind, exif=b"Exif\0\0" + tiff, **options)
    return file.getvalue()


def with_segment(marker: int, body: bytes) -> bytes:
    """A JPEG with one segment more, behind the first."""
    data = encoded(PIXELS)
    end = 4 + int.from_bytes(data[4:6], "big")
    return data[:end] + struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body + data[end:]


def with_jfif_thumbnail() -> bytes:
    """A JPEG with six pixels in its first segment."""
    data = encoded(PIXELS)
    body = data[6:18] + bytes((2, 3)) + b"preview of pixels!"
    return data[:2] + b"\xff\xe0" + struct.pack(">H", len(body) + 2) + body + data[20:]


def labelled(data: bytes) -> bytes:
    """The file as it is handed out."""
    parameters = GenerationParameters(prompt="a lake")
    finisher = LabelSettings().finisher()
    return finisher.finish(data, inspect_image(data), parameters, "procedural").data


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_thumbnail_of_exif_goes_and_the_rest_of_exif_stays(kind: str, order: str) -> None:
    data = file_with_exif(kind, exif_with_preview(order))
    handed_out = labelled(data)
    assert PREVIEW in data
    assert PREVIEW[-200:] not in handed_out
    with Image.open(io.BytesIO(handed_out)) as image:
        assert image.getexif()[0x0131] == "cam"
        assert not image.getexif().get_ifd(0x0201)


@pytest.mark.parametrize(
    "file",
    [
        lambda: with_segment(0xE0, b"JFXX\0\x10" + PREVIEW),
        lambda: with_segment(0xE2, b"FPXR\0" + PREVIEW),
        lambda: with_segment(0xEF, b"vendor\0" + PREVIEW),
        lambda: encoded(PIXELS) + PREVIEW,
    ],
    ids=["JFXX", "FlashPix", "unknown", "behind the picture"],
)
def test_segments_of_applications_go(file: Callable[[], bytes]) -> None:
    assert PREVIEW in file()
    assert PREVIEW[-200:] not in labelled(file())


def test_thumbnail_of_jfif_goes_and_its_resolution_stays() -> None:
    handed_out = labelled(with_jfif_thumbnail())
    assert b"preview" not in handed_out
    with Image.open(io.BytesIO(handed_out)) as image:
        assert isinstance(image, JpegImagePlugin.JpegImageFile)
        assert image.info["jfif_version"] == (1, 1)


@pytest.mark.parametrize("end", [5, 9, 20, 24])
def test_exif_that_is_damaged_is_left_as_it_is(end: int) -> None:
    data = file_with_exif("JPEG", exif_with_preview()[:end] + b"\xff" * 40)
    assert without_previews(data) == data


def test_thumbnail_that_lies_over_the_rest_of_exif_goes_with_it() -> None:
    tiff = bytearray(exif_with_preview())
    at = tiff.index(struct.pack("<HHI", _JPEG_OFFSET, 4, 1)) + 8
    struct.pack_into("<I", tiff, at, 0)
    assert PREVIEW[:100] not in labelled(file_with_exif("JPEG", bytes(tiff)))


def test_file_without_a_preview_stays_byte_for_byte() -> None:
    data = encoded(PIXELS, comment=b"note", icc_profile=b"profile" * 40)
    assert without_previews(data) == data
