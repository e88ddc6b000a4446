"""Takes out of a file the small copies of its picture that are there for viewers."""

from contextlib import suppress
from dataclasses import replace

from activities.imaging.provenance import exif
from activities.imaging.provenance.embedding import open_file
from activities.imaging.provenance.errors import DamagedMetadataError
from activities.imaging.provenance.files import ImageFile
from activities.imaging.provenance.jpeg import JpegFile, Segment

_APP0, _APP14, _APP15 = 0xE0, 0xEE, 0xEF
_JFIF, _ADOBE = b"JFIF\0", b"Adobe"


def without_previews(data: bytes) -> bytes:
    """The same picture without EXIF's thumbnail, and in a JPEG without JFIF's and without what
    applications keep in segments of their own. What says something of the picture stays.

    Raises `DamagedMetadataError` where the file can't be taken apart.
    """
    file = open_file(data)
    if isinstance(file, JpegFile):
        file = _without_own_segments(file)
    return _without_thumbnail(file).to_bytes()


def _without_thumbnail(file: ImageFile) -> ImageFile:
    tiff = file.exif
    # EXIF that can't be read shows nothing that anybody could see.
    with suppress(DamagedMetadataError):
        if tiff is not None and (kept := exif.without_thumbnail(tiff)) != tiff:
            return file.with_exif(kept)
    return file


def _without_own_segments(file: JpegFile) -> JpegFile:
    kept = (segment for segment in file.segments if _is_known(segment))
    return replace(file, segments=tuple(map(_without_jfif_thumbnail, kept)))


def _is_known(segment: Segment) -> bool:
    """Whether it is no application's own: what that holds, nobody here knows."""
    is_own = _APP0 <= segment.marker <= _APP15 and not segment.is_carried
    return not is_own or segment.is_of(_APP0, _JFIF) or segment.is_of(_APP14, _ADOBE)


def _without_jfif_thumbnail(segment: Segment) -> Segment:
    """Its columns and rows are the last two of fourteen bytes, and its pixels follow them."""
    if not segment.is_of(_APP0, _JFIF) or len(segment.body) < 14:
        return segment
    return Segment(_APP0, segment.body[:12] + bytes(2))
