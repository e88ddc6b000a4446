"""Whether bytes are an image, and which: never trusted to be one because an engine said so."""

import io
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_MAX_PIXELS = 64_000_000


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
        with Image.open(io.BytesIO(data), formats=tuple(_MEDIA_TYPES)) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise NotAnImageError(f"more than {_MAX_PIXELS} pixels")
            image.verify()
        with Image.open(io.BytesIO(data), formats=tuple(_MEDIA_TYPES)) as image:
            image.load()
            return ImageFacts(_MEDIA_TYPES[image.format or ""], image.width, image.height)
    except UnidentifiedImageError as error:
        raise NotAnImageError("not PNG, JPEG or WebP") from error
    # SyntaxError is Pillow's word for a bad checksum, ValueError for an oversized chunk.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise NotAnImageError("damaged") from error
