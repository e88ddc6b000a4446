"""An image file taken apart into pixels, and put together again as the same kind of file."""

import io
import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from activities.imaging.errors import UnfitImageError

Pixels = NDArray[np.uint8]

_ORIENTATION = 0x0112
_UPRIGHT = 1
# Pillow reads more than 8 bits of colour as 8 without a word, so a PNG's own header is asked.
_PNG_DEPTH_AT = 24
_GREY = ("1", "L", "LA")
# zlib's Z_HUFFMAN_ONLY.
_HUFFMAN_ONLY = 2
_FASTEST_LOSSLESS_WEBP = {"lossless": True, "quality": 40, "method": 2, "exact": True}


@dataclass(frozen=True)
class Still:
    """The pixels of an image, (height, width, 3) in 8-bit RGB, and what else its file needs.

    `alpha` is (height, width), where the file has it. A grey file's three channels are equal.
    """

    pixels: Pixels
    media_type: str
    is_grey: bool = False
    alpha: Pixels | None = None
    jpeg_options: dict[str, Any] | None = None

    @property
    def is_lossless(self) -> bool:
        """Whether pixels that are written come back as they were."""
        return self.media_type != "image/jpeg"

    def with_pixels(self, pixels: Pixels, alpha: Pixels | None = None) -> "Still":
        """The same kind of file with other pixels, and with another transparency if it is given."""
        return replace(self, pixels=pixels, alpha=self.alpha if alpha is None else alpha)

    def within(self, box: tuple[int, int, int, int]) -> Pixels:
        """The part in a box, (height, width, 3), or 4 with the transparency."""
        left, top, right, bottom = box
        colours = self.pixels[top:bottom, left:right]
        if self.alpha is None:
            return colours
        return np.dstack([colours, self.alpha[top:bottom, left:right]])

    def to_bytes(self) -> bytes:
        """The file, without any metadata. A WebP is written without loss."""
        image = self._image()
        if self.media_type == "image/png":
            return _png(image)
        buffer = io.BytesIO()
        if self.media_type == "image/webp":
            image.save(buffer, "WEBP", **_FASTEST_LOSSLESS_WEBP)
        else:
            image.save(buffer, "JPEG", **(self.jpeg_options or {}))
        return buffer.getvalue()

    def _image(self) -> Image.Image:
        colours = Image.fromarray(self.pixels)
        # WebP knows no grey of its own.
        image = colours.convert("L") if self.is_grey and self._may_be_grey else colours
        if self.alpha is not None:
            image.putalpha(Image.fromarray(self.alpha))
        return image

    @property
    def _may_be_grey(self) -> bool:
        equal = (self.pixels[..., :1] == self.pixels).all()
        return self.media_type != "image/webp" and bool(equal)


def open_still(data: bytes, media_type: str) -> Still:
    """Take an image apart that was seen to be a whole one; raises `UnfitImageError`."""
    with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as image:
        _refuse_unfit(image, data)
        has_alpha = image.has_transparency_data
        return Still(
            pixels=np.asarray(_plain(image, has_alpha).convert("RGB")),
            media_type=media_type,
            is_grey=image.mode in _GREY,
            alpha=np.asarray(image.convert("RGBA").getchannel("A")) if has_alpha else None,
            jpeg_options=_jpeg_options(image),
        )


def _plain(image: Image.Image, has_alpha: bool) -> Image.Image:
    """A palette's transparency may be a colour of its own, which RGBA keeps."""
    return image.convert("RGBA") if has_alpha else image


def _refuse_unfit(image: Image.Image, data: bytes) -> None:
    if getattr(image, "n_frames", 1) > 1:
        raise UnfitImageError("an animated image has no single label")
    is_deep = image.format == "PNG" and data[_PNG_DEPTH_AT] > 8
    if is_deep or image.mode in ("I", "F") or image.mode.startswith("I;16"):
        raise UnfitImageError("an image of more than 8 bits per channel is not supported")
    if image.mode in ("CMYK", "LAB", "HSV", "YCCK"):
        raise UnfitImageError(f"an image in {image.mode} is not supported, only RGB and grey")
    orientation = _orientation(image)
    if orientation != _UPRIGHT:
        raise UnfitImageError(f"an image with the EXIF orientation {orientation} is not supported")


def _orientation(image: Image.Image) -> object:
    """Upright, too, where nobody can read which it is."""
    try:
        return image.getexif().get(_ORIENTATION, _UPRIGHT)
    # SyntaxError is Pillow's word for what is no TIFF at all.
    except (OSError, SyntaxError, ValueError, struct.error):
        return _UPRIGHT


def _jpeg_options(image: Image.Image) -> dict[str, Any] | None:
    """Tables and sampling of the file, whatever numbers its tables have: the encoder gives the
    first component the first one, and the others the second."""
    if not isinstance(image, JpegImagePlugin.JpegImageFile):
        return None
    sampling = JpegImagePlugin.get_sampling(image)
    tables = [image.quantization[table] for _, _, _, table in image.layer[:2]]
    return {"qtables": tables} | ({"subsampling": sampling} if sampling >= 0 else {})


def encode_png(pixels: Pixels) -> bytes:
    """Encode with the same bytes on each machine that has the same build of Pillow.

    Huffman coding alone leaves out the search for matches, in which zlib and zlib-ng differ; it
    is also the fastest here, and no larger. What remains is the build: a Pillow linked with
    another zlib may still cut its blocks elsewhere and write other bytes for the same pixels.
    """
    return _png(Image.fromarray(pixels))


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=6, compress_type=_HUFFMAN_ONLY)
    return buffer.getvalue()


def pixels_of(png: bytes) -> Pixels:
    """The inverse of `encode_png`: (height, width, 3), or 4 with transparency."""
    with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
        return np.asarray(image.convert("RGBA" if image.has_transparency_data else "RGB"))
