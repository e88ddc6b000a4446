"""Image files of every kind, and strict readers of their structure that share nothing with what
they check."""

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageCms, PngImagePlugin
from PIL.TiffImagePlugin import IFDRational

from activities.imaging.provenance.record import ImplicitLabel, Provenance, RecordedParameters

SIZE = (48, 33)


def picture(mode: str = "RGB", seed: int = 0) -> Image.Image:
    """A smooth picture with some noise: every coding of it has something to do."""
    chance = np.random.default_rng(seed)
    width, height = SIZE
    pixels = np.linspace(0, 200, width * height * 4).reshape(height, width, 4)
    pixels = (pixels + chance.integers(0, 40, pixels.shape)).astype(np.uint8)
    return Image.fromarray(pixels, "RGBA").convert(mode)


def encoded(name: str, mode: str = "RGB", **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture(mode).save(buffer, name, **options)
    return buffer.getvalue()


def deep_png() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.arange(48 * 33, dtype=np.uint16).reshape(33, 48) * 40).save(buffer, "PNG")
    return buffer.getvalue()


FRAMES: dict[str, Any] = {
    "save_all": True,
    "append_images": [picture(seed=1), picture(seed=2)],
    "duration": 40,
}
SAMPLES: dict[str, bytes] = {
    "png": encoded("PNG"),
    "png-alpha": encoded("PNG", "RGBA"),
    "png-palette": encoded("PNG", "P"),
    "png-16-bit": deep_png(),
    "png-animated": encoded("PNG", **FRAMES),
    "jpeg": encoded("JPEG"),
    "jpeg-progressive": encoded("JPEG", progressive=True),
    "jpeg-gray": encoded("JPEG", "L"),
    "jpeg-cmyk": encoded("JPEG", "CMYK"),
    "webp": encoded("WEBP"),
    "webp-alpha": encoded("WEBP", "RGBA"),
    "webp-lossless": encoded("WEBP", lossless=True),
    "webp-lossless-alpha": encoded("WEBP", "RGBA", lossless=True),
    "webp-animated": encoded("WEBP", **FRAMES),
}
# Made once: the second in which it was made is inside.
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
PLAIN = ("png", "jpeg", "webp")

LABEL = ImplicitLabel(
    content_producer="暗房 Darkroom & <Co>",
    produce_id="sha256-0123456789abcdef",
    content_propagator='"quoted" \U0001f5bc',
)
PARAMETERS = RecordedParameters(
    prompt='a "fox", <red> & ]]> blue\nשלום עולם \U0001f98a\u200d\U0001f525 ﷺ e\u0301',
    negative_prompt="низкое качество, 模糊\ttab",
    num_inference_steps=30,
    guidance_scale=7.5,
    seed=2**64 - 1,
    width=48,
    height=33,
    engine="procedural",
)
FULL = Provenance(implicit_label=LABEL, parameters=PARAMETERS)
WITHOUT_PARAMETERS = Provenance(implicit_label=LABEL)


def frames(data: bytes) -> list[bytes]:
    """The decoded pixels of every frame."""
    with Image.open(io.BytesIO(data)) as image:
        decoded = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            decoded.append(image.mode.encode() + image.tobytes())
        return decoded


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def camera_exif(comment: bytes | None = None) -> bytes:
    """EXIF with an orientation, a name and an EXIF directory, as Pillow writes it."""
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "Camera & Sons"
    exif.get_ifd(0x8769)[0x829A] = IFDRational(1, 125)
    if comment is not None:
        exif.get_ifd(0x8769)[0x9286] = comment
    return exif.tobytes()


def with_texts(**texts: str) -> bytes:
    """A PNG with these text chunks."""
    info = PngImagePlugin.PngInfo()
    for keyword, text in texts.items():
        info.add_text(keyword, text)
    return encoded("PNG", pnginfo=info)


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def with_chunk(data: bytes, kind: bytes, body: bytes) -> bytes:
    """A PNG with one chunk more, behind its header."""
    return data[:33] + png_chunk(kind, body) + data[33:]


def png_parts(data: bytes) -> list[tuple[str, bytes]]:
    """The chunks, every length, checksum and the order checked."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    parts, at = [], 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        assert len(body) == length
        assert data[at + 8 + length :][:4] == struct.pack(">I", zlib.crc32(kind + body))
        parts.append((kind.decode("ascii"), body))
        at += 12 + length
    kinds = [kind for kind, _ in parts]
    assert kinds[0] == "IHDR"
    assert kinds[-1] == "IEND"
    assert kinds.count("IEND") == 1
    first = kinds.index("IDAT")
    assert all(kinds.index(k) < first for k in kinds if k in {"iCCP", "eXIf", "PLTE", "acTL"})
    return parts


def jpeg_parts(data: bytes) -> list[tuple[str, bytes]]:
    """The segments up to the first scan, and the rest of the file as "scans"."""
    assert data[:2] == b"\xff\xd8"
    parts, at = [], 2
    while data[at + 1] != 0xDA:
        assert data[at] == 0xFF
        (length,) = struct.unpack_from(">H", data, at + 2)
        parts.append((f"{data[at + 1]:02X}", data[at + 4 : at + 2 + length]))
        at += 2 + length
    assert data.endswith(b"\xff\xd9")
    return [*parts, ("scans", data[at:])]


def webp_parts(data: bytes) -> list[tuple[str, bytes]]:
    """The chunks; sizes, padding, order and the header's flags checked."""
    assert data[:4] + data[8:12] == b"RIFFWEBP"
    assert struct.unpack_from("<I", data, 4) == (len(data) - 8,)
    parts, at = [], 12
    while at < len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        body = data[at + 8 : at + 8 + length]
        assert len(body) == length
        assert data[at + 8 + length : at + 8 + length + length % 2] == b"\0" * (length % 2)
        parts.append((kind.decode("ascii"), body))
        at += 8 + length + length % 2
    kinds = [kind for kind, _ in parts]
    if kinds[0] == "VP8X":
        flags = parts[0][1][0]
        for kind, flag in {"ICCP": 0x20, "EXIF": 8, "XMP ": 4, "ANIM": 2}.items():
            assert bool(flags & flag) == (kind in kinds), kind
        order = [k for k in kinds if k in {"ICCP", "VP8 ", "VP8L", "EXIF", "XMP "}]
        assert order == sorted(order, key=["ICCP", "VP8 ", "VP8L", "EXIF", "XMP "].index)
    else:
        assert len(kinds) == 1
    return parts


PARTS: dict[bytes, Callable[[bytes], list[tuple[str, bytes]]]] = {
    b"\x89PN": png_parts,
    b"\xff\xd8\xff": jpeg_parts,
    b"RIF": webp_parts,
}
_METADATA = {"tEXt", "zTXt", "iTXt", "eXIf", "iCCP", "E1", "E2", "ED", "FE"}
_METADATA |= {"VP8X", "ICCP", "EXIF", "XMP ", "caBX", "EB", "C2PA"}


def parts(data: bytes) -> list[tuple[str, bytes]]:
    return PARTS[data[:3]](data)


def coded_picture(data: bytes) -> list[tuple[str, bytes]]:
    """All of the file that isn't metadata, byte for byte."""
    return [(kind, body) for kind, body in parts(data) if kind not in _METADATA]
