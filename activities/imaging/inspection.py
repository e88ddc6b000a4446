"""Whether bytes are an image, and which: never trusted to be one because an engine said so."""

import io
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

from activities.refs import MAX_IMAGE_SIDE

_FORMATS = ("PNG", "JPEG", "WEBP")
# Pillow's MPO is a JPEG with more pictures behind the first.
_MEDIA_TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "WEBP": "image/webp",
}
_MAX_PIXELS = 64_000_000
_TOO_LARGE = f"more than {_MAX_PIXELS} pixels"
# An encoder makes a dozen. Each decodes the whole picture, and may be a few bytes long.
_MAX_SCANS = 100
_SCAN = b"\xff\xda"
_TOO_MANY_SCANS = f"more than {_MAX_SCANS} scans"
_TOO_LONG = f"a side of more than {MAX_IMAGE_SIDE} pixels"


class NotAnImageError(Exception):
    """The bytes can't be decoded as PNG, JPEG or WebP; the message says why."""


@dataclass(frozen=True)
class ImageFacts:
    """What the bytes themselves say; sizes in pixels."""

    media_type: str
    width: int
    height: int


def inspect_image(data: bytes) -> ImageFacts:
    """Decode the whole image and tell its type and size, or raise `NotAnImageError`.

    Verified and loaded, because each of the two misses faults that the other finds.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise NotAnImageError(_TOO_LARGE)
            if max(image.size) > MAX_IMAGE_SIDE:
                raise NotAnImageError(_TOO_LONG)
            if image.format in ("JPEG", "MPO") and data.count(_SCAN) > _MAX_SCANS:
                raise NotAnImageError(_TOO_MANY_SCANS)
            image.verify()
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            image.load()
            return ImageFacts(_MEDIA_TYPES[image.format or ""], image.width, image.height)
    except UnidentifiedImageError as error:
        raise NotAnImageError("not PNG, JPEG or WebP") from error
    # Pillow's own limits, which are above ours, and looked at earlier.
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise NotAnImageError(_TOO_LARGE) from error
    # Says nothing about the image.
    except (NotAnImageError, MemoryError):
        raise
    # SyntaxError is Pillow's word for a bad checksum, ValueError for an oversized chunk, and where
    # its parsers trip they raise what they like.
    except Exception as error:
        raise NotAnImageError("damaged") from error
