"""Which bytes count as an image."""

import io
import random
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image

from activities.imaging.inspection import ImageFacts, NotAnImageError, inspect_image

TYPES = ("image/png", "image/jpeg", "image/webp")


def noise(width: int = 40, height: int = 30) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


def encoded(name: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    noise().save(buffer, name, **options)
    return buffer.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def empty_png(width: int, height: int, *more: bytes) -> bytes:
    """A PNG that promises pixels which it doesn't have."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(more) + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (encoded("PNG"), "image/png"),
        (encoded("JPEG"), "image/jpeg"),
        (encoded("JPEG", progressive=True), "image/jpeg"),
        (encoded("MPO", save_all=True, append_images=[noise()]), "image/jpeg"),
        (encoded("WEBP"), "image/webp"),
        (encoded("WEBP", lossless=True), "image/webp"),
    ],
)
def test_the_bytes_themselves_say_type_and_size(data: bytes, media_type: str) -> None:
    assert inspect_image(data) == ImageFacts(media_type, 40, 30)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00" * 100, b"<html>", encoded("GIF"), encoded("BMP"), encoded("TIFF"), b"\x89PNG"],
)
def test_anything_else_is_no_image(data: bytes) -> None:
    with pytest.raises(NotAnImageError, match="not PNG, JPEG or WebP"):
        inspect_image(data)


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
def test_a_truncated_image_is_damaged(name: str) -> None:
    data = encoded(name)
    for size in (len(data) // 2, len(data) - 20):
        with pytest.raises(NotAnImageError):
            inspect_image(data[:size])


def test_a_flipped_bit_in_a_png_is_damage() -> None:
    data = bytearray(encoded("PNG"))
    data[len(data) // 2] ^= 1
    with pytest.raises(NotAnImageError, match="damaged"):
        inspect_image(bytes(data))


@pytest.mark.parametrize(
    "size", [(8001, 8000), (10_000, 10_000), (20_000, 20_000), (2**31 - 1, 2**31 - 1)]
)
def test_huge_dimensions_are_refused_before_any_memory_is_taken(size: tuple[int, int]) -> None:
    with pytest.raises(NotAnImageError, match="more than 64000000 pixels"):
        inspect_image(empty_png(*size))


def test_a_side_that_no_artifact_can_have_is_refused() -> None:
    with pytest.raises(NotAnImageError, match="a side of more than 65536 pixels"):
        inspect_image(empty_png(65_537, 1))


def test_a_png_without_pixels_is_damaged() -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 30, 8, 2, 0, 0, 0))
    with pytest.raises(NotAnImageError, match="damaged"):
        inspect_image(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IEND", b""))


def test_a_bomb_in_a_text_chunk_is_refused() -> None:
    bomb = b"Comment\0\0" + zlib.compress(b"\0" * 50_000_000)
    with pytest.raises(NotAnImageError, match="damaged"):
        inspect_image(empty_png(40, 30, chunk(b"zTXt", bomb)))


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
@pytest.mark.parametrize("name", ["PNG", "JPEG", "MPO", "WEBP"])
def test_damage_of_any_kind_is_an_image_or_not_and_nothing_else(name: str) -> None:
    chance = random.Random(name)
    original = encoded(name)
    for _ in range(400):
        damaged = damage(bytearray(original), chance)
        with suppress(NotAnImageError):
            assert inspect_image(damaged).media_type in TYPES


def damage(data: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 6)):
        end = min(len(data), 200) if chance.random() < 0.7 else len(data)
        at = chance.randrange(max(1, end - 1))
        act: Callable[[bytearray, int], None] = chance.choice((_flip, _flip, _cut_out, _cut_off))
        act(data, at)
    return bytes(data)


def _flip(data: bytearray, at: int) -> None:
    data[at : at + 1] = b"\x5a"


def _cut_out(data: bytearray, at: int) -> None:
    del data[at : at + 5]


def _cut_off(data: bytearray, at: int) -> None:
    del data[max(1, at) :]


def test_file_of_few_bytes_that_decodes_its_picture_many_times_is_refused() -> None:
    file = io.BytesIO()
    Image.new("L", (64, 64)).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    last = data.rindex(b"\xff\xda")
    scans = (data[:-2] + data[last:-2] * 1000) + data[-2:]
    with pytest.raises(NotAnImageError, match="more than 100 scans"):
        inspect_image(scans)
