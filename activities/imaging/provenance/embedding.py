"""Provenance into image files and out of them. The pixels' own bytes are never touched."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from activities.imaging.provenance import exif, jpeg, png
from activities.imaging.provenance.errors import DamagedMetadataError, UnreadableXmpError
from activities.imaging.provenance.files import ImageFile
from activities.imaging.provenance.jpeg import JpegFile
from activities.imaging.provenance.png import PngFile
from activities.imaging.provenance.record import (
    ImplicitLabel,
    Provenance,
    ProvenanceSummary,
    RecordedParameters,
)
from activities.imaging.provenance.webp import WebpFile, is_webp
from activities.imaging.provenance.wording import Mentions, mentions_of
from activities.imaging.provenance.xmp import (
    CREATOR_TOOL,
    DIGITAL_SOURCE_TYPE,
    IMPLICIT_LABEL,
    PARAMETERS,
    Property,
    Xmp,
)

_Read = TypeVar("_Read", ImplicitLabel, RecordedParameters, Provenance)


def write_provenance(data: bytes, provenance: Provenance, private: Sequence[str] = ()) -> bytes:
    """The same picture with this on record; what the file says beside it stays, but for anything
    that has one of the private texts in it.

    Written twice gives the same bytes. XMP that can't be read is replaced, as nobody else could
    read it either. Signed credentials don't survive a change of the file, so they are taken out
    unless nothing changes: sign afterwards, with the original as the parent. Raises
    `DamagedMetadataError` where the file can't be taken apart, or its XMP is too large to look at.
    """
    # Mostly there is nothing to look for, and then nobody looks.
    file, mentions = open_file(data), mentions_of(private) if private else None
    label = provenance.implicit_label
    values = {
        DIGITAL_SOURCE_TYPE: provenance.digital_source_type,
        IMPLICIT_LABEL: None if label is None else label.to_json(),
        CREATOR_TOOL: provenance.software,
    }
    written = {key: value for key, value in values.items() if value is not None}
    parameters = provenance.parameters
    text = None if parameters is None else parameters.to_text()
    if mentions:
        file = _without_mentions(file, mentions)
    changed = _with_parameters_text(file, text)
    if label is not None:
        changed = changed.with_implicit_label(label.to_json())
    changed = _with_properties(
        changed,
        {**written, PARAMETERS: None if parameters is None else parameters.to_json()},
        mentions,
    )
    return _unless_same(data, changed)


def _unless_same(data: bytes, changed: ImageFile) -> bytes:
    result = changed.to_bytes()
    return data if result == data else changed.without_credentials().to_bytes()


def _without_mentions(file: ImageFile, mentions: Mentions) -> ImageFile:
    tiff = file.exif
    if tiff is not None and (kept := exif.without_mentions(tiff, mentions)) != tiff:
        file = file.with_exif(kept)
    return file.without_mentions(mentions)


def _with_properties(
    file: ImageFile, values: Mapping[Property, str | None], mentions: Mentions | None
) -> ImageFile:
    try:
        xmp = Xmp.from_packets(file.xmp)
        if mentions:
            xmp = xmp.without_mentions(mentions)
    except UnreadableXmpError:
        xmp = Xmp.empty()
    xmp.put(values)
    return file.with_xmp(xmp.to_packets(file.xmp_limit))


def _with_parameters_text(file: ImageFile, text: str | None) -> ImageFile:
    """The text where other tools look for it; None takes it out, whoever wrote it."""
    if text is None:
        return _without_exif_parameters(file.without_parameters())
    # A PNG keeps it in a chunk of its own.
    if isinstance(file, PngFile):
        return file.with_text(text)
    try:
        return file.without_parameters().with_exif(_commented(file.exif, text))
    # No room, or EXIF of which nothing is known: a comment of the format's own, if it has one.
    except DamagedMetadataError:
        return _without_exif_parameters(file).with_text(text)


def _commented(tiff: bytes | None, text: str) -> bytes:
    """EXIF with this comment; one that isn't about parameters is somebody's and stays."""
    if tiff is not None:
        comment = exif.user_comment(tiff)
        if comment == text:
            return tiff
        if comment is not None and not exif.has_parameters(tiff):
            raise DamagedMetadataError("The file's EXIF data has a comment already.")
    return exif.with_user_comment(tiff, text)


def _without_exif_parameters(file: ImageFile) -> ImageFile:
    tiff = file.exif
    if tiff is None or not _has_exif_parameters(tiff):
        return file
    return file.with_exif(exif.without_parameters(tiff))


def _has_exif_parameters(tiff: bytes) -> bool:
    """EXIF that can't be read says nothing that anybody could read."""
    try:
        return exif.has_parameters(tiff)
    except DamagedMetadataError:
        return False


def read_provenance(data: bytes) -> Provenance | None:
    """What the file says, None where it says nothing of where the picture comes from.

    Parameters are only read as this service records them. Safe for files from anywhere; raises
    nothing but `DamagedMetadataError`.
    """
    file = open_file(data)
    xmp = Xmp.from_packets(file.xmp)
    label = _label(file, xmp)
    parameters = _model(RecordedParameters, xmp.get(PARAMETERS))
    source = xmp.get(DIGITAL_SOURCE_TYPE)
    if label is None and parameters is None and source is None:
        return None
    return _checked(
        lambda: Provenance(
            digital_source_type=source,
            implicit_label=label,
            parameters=parameters,
            software=xmp.get(CREATOR_TOOL),
        )
    )


def describe_provenance(data: bytes) -> ProvenanceSummary:
    """What the file carries, in short. Safe for files from anywhere; raises nothing but
    `DamagedMetadataError`. Whether credentials are valid is for `credentials` to say."""
    file = open_file(data)
    xmp = Xmp.from_packets(file.xmp)
    tiff = file.exif
    in_exif = tiff is not None and _has_exif_parameters(tiff)
    return ProvenanceSummary(
        digital_source_type=xmp.get(DIGITAL_SOURCE_TYPE),
        aigc=_label(file, xmp),
        parameters=xmp.get(PARAMETERS) is not None or bool(file.texts) or in_exif,
        content_credentials="present" if file.has_credentials else "absent",
    )


def carry_provenance(source: bytes, target: bytes) -> bytes:
    """The target's picture with all that the source says of it: XMP, EXIF, colour profile, texts.

    The target is the same picture in a new coding, of the same size (or `ValueError`), in the
    same format or another: then what the other format has a place for. Signed credentials are
    left out, as they hold for the source's bytes only. Raises `DamagedMetadataError`.
    """
    old, new = open_file(source), open_file(target)
    if old.size != new.size:
        raise ValueError(f"not the same picture: {old.size} and {new.size} pixels")
    carried = new.with_all_of(old) if type(old) is type(new) else _converted(old, new)
    return _unless_same(target, carried)


def _converted(old: ImageFile, new: ImageFile) -> ImageFile:
    if old.icc is not None:
        new = new.with_icc(old.icc)
    if old.exif is not None:
        new = new.with_exif(old.exif)
    xmp = Xmp.from_packets(old.xmp)
    label = _label(old, xmp)
    if label is not None:
        xmp.put({IMPLICIT_LABEL: label.to_json()})
        new = new.with_implicit_label(label.to_json())
    if old.xmp or label is not None:
        new = new.with_xmp(xmp.to_packets(new.xmp_limit))
    text = _parameters_text(old, xmp)
    return new if text is None else _with_parameters_text(new, text)


def _parameters_text(file: ImageFile, xmp: Xmp) -> str | None:
    recorded = _model(RecordedParameters, xmp.get(PARAMETERS))
    if recorded is not None:
        return recorded.to_text()
    tiff = file.exif
    in_exif = tiff is not None and _has_exif_parameters(tiff)
    comment = exif.user_comment(tiff) if tiff is not None and in_exif else None
    return next(iter(file.texts), comment)


def _label(file: ImageFile, xmp: Xmp) -> ImplicitLabel | None:
    return _model(ImplicitLabel, xmp.get(IMPLICIT_LABEL) or file.implicit_label)


def _model(kind: type[_Read], text: str | None) -> _Read | None:
    if text is None:
        return None
    return _checked(lambda: kind.model_validate(json.loads(text)))


def _checked(read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    # ValueError: no JSON, or not what is expected. RecursionError: JSON nested without end.
    except (ValueError, RecursionError) as error:
        raise DamagedMetadataError("The file's provenance record is not readable.") from error


def open_file(data: bytes) -> ImageFile:
    """Take a file of any of the three kinds apart; raises `DamagedMetadataError`."""
    if data.startswith(png.SIGNATURE):
        return PngFile.from_bytes(data)
    if data.startswith(jpeg.SIGNATURE):
        return JpegFile.from_bytes(data)
    if is_webp(data):
        return WebpFile.from_bytes(data)
    raise DamagedMetadataError("The file is not PNG, JPEG or WebP.")
