"""The user comment and the thumbnail inside EXIF (TIFF 6.0, Exif 2.32), changed without moving
anything else.

Offsets inside of maker notes would break if EXIF were written anew, so a value that has no room
goes to the end, and a directory that grows is copied there.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self

from activities.imaging.provenance.errors import DamagedMetadataError
from activities.imaging.provenance.texts import is_parameters
from activities.imaging.provenance.wording import Mentions, read_every_way

_EXIF_POINTER, _USER_COMMENT = 0x8769, 0x9286
# Where ComfyUI's nodes put prompt and graph in a file that has no text chunks.
_DESCRIPTION, _MAKE, _MODEL = 0x010E, 0x010F, 0x0110
_THUMBNAIL_AT, _THUMBNAIL_LENGTH = 0x0201, 0x0202
_BYTE, _ASCII, _LONG, _UNDEFINED = 1, 2, 4, 7
_VERSION_ENTRY = (0x9000, _UNDEFINED, 4, b"0232")
_EMPTY = b"MM\0*\0\0\0\x08" + b"\0\0" + b"\0" * 4
_UNICODE, _ASCII_CODE = b"UNICODE\0", b"ASCII\0\0\0"
_OF_BYTES = frozenset({_BYTE, _ASCII, _UNDEFINED})
_DAMAGED = DamagedMetadataError("The file's EXIF data is damaged.")


@dataclass(frozen=True)
class _Entry:
    """One entry of a directory: `at` is its own offset, `value` that of its value."""

    at: int
    tag: int
    kind: int
    count: int
    value: int


class _Tiff:
    """A TIFF in memory that is changed in place."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 14 or data[:4] not in {b"II*\0", b"MM\0*"}:
            raise _DAMAGED
        self.data = bytearray(data)
        self.order: Literal["<", ">"] = "<" if data[:2] == b"II" else ">"

    @classmethod
    def empty(cls) -> Self:
        return cls(_EMPTY)

    def _read(self, form: str, at: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(self.order + form, self.data, at)
        except struct.error as error:
            raise _DAMAGED from error

    def write(self, form: str, at: int, *values: int | bytes) -> None:
        # Where values were made to lie over each other, one may be cut off with another.
        try:
            struct.pack_into(self.order + form, self.data, at, *values)
        except struct.error as error:
            raise _DAMAGED from error

    @property
    def first(self) -> int:
        """Where the first directory is."""
        return self._read("I", 4)[0]

    def entries(self, directory: int) -> Iterator[_Entry]:
        """The entries of one byte per element, and of one LONG; others don't matter here."""
        for number in range(self._read("H", directory)[0]):
            at = directory + 2 + 12 * number
            tag, kind, count, offset = self._read("HHII", at)
            inline = count <= (4 if kind in _OF_BYTES else 1)
            yield _Entry(at, tag, kind, count, at + 8 if inline else offset)

    def find(self, directory: int, tag: int) -> _Entry | None:
        return next((entry for entry in self.entries(directory) if entry.tag == tag), None)

    def value(self, entry: _Entry) -> bytes:
        if entry.value + entry.count > len(self.data):
            raise _DAMAGED
        return bytes(self.data[entry.value : entry.value + entry.count])

    @property
    def exif(self) -> int | None:
        """Where the EXIF directory is."""
        entry = self.find(self.first, _EXIF_POINTER)
        return None if entry is None else self._read("I", entry.at + 8)[0]

    def long(self, at: int) -> int:
        return self._read("I", at)[0]

    def link(self, directory: int) -> int:
        """Where it stands which directory follows this one: 0 if none does."""
        return directory + 2 + 12 * self._read("H", directory)[0]

    def append(self, value: bytes) -> int:
        """Put something at the end, where offsets must be even; tell where it is."""
        self.data += b"\0" * (len(self.data) % 2)
        self.data += value
        return len(self.data) - len(value)

    def grown(self, directory: int, entry: tuple[int, int, int, bytes]) -> int:
        """A copy of the directory with one entry more, sorted by tag; tell where it is."""
        count = self._read("H", directory)[0]
        start, end = directory + 2, directory + 2 + 12 * count
        next_directory = self.data[end : end + 4]
        if len(next_directory) != 4:
            raise _DAMAGED
        entries = [bytes(self.data[at : at + 12]) for at in range(start, end, 12)]
        entries.append(struct.pack(self.order + "HHI4s", *entry))
        entries.sort(key=lambda packed: struct.unpack_from(self.order + "H", packed)[0])
        packed_count = struct.pack(self.order + "H", count + 1)
        return self.append(b"".join([packed_count, *entries, next_directory]))

    def clear(self, entry: _Entry, kept: int) -> None:
        """Blank a value down to `kept` zero bytes. What stood at the end is cut off, so that a
        value which is replaced again and again doesn't make the file grow."""
        end = entry.value + entry.count
        at_the_end = end >= len(self.data) and entry.value > entry.at + 8
        self.data[entry.value : end] = b"\0" * entry.count
        kept = min(kept, entry.count)
        if at_the_end:
            del self.data[entry.value + kept :]
        self.write("I", entry.at + 4, kept)
        if kept <= 4 and entry.value != entry.at + 8:
            self.write("I", entry.at + 8, 0)


def user_comment(tiff: bytes) -> str | None:
    """The comment that the picture carries, None where there is none or it is blank."""
    parsed = _Tiff(tiff)
    entry = _comment_entry(parsed)
    text = None if entry is None else _decoded(parsed.value(entry), parsed.order)
    return text or None


def _comment_entry(tiff: _Tiff) -> _Entry | None:
    directory = tiff.exif
    return None if directory is None else tiff.find(directory, _USER_COMMENT)


def _decoded(value: bytes, order: Literal["<", ">"]) -> str:
    code, body = value[:8], value[8:]
    if code != _UNICODE:
        return body.decode("utf-8", "replace").strip("\0 ")
    codecs = ("utf-16-le", "utf-16-be") if order == "<" else ("utf-16-be", "utf-16-le")
    # Some writers use one order of bytes, whatever the file's own.
    texts = [body.decode(codec, "replace").strip("\0\ufeff ") for codec in codecs]
    return next((text for text in texts if is_parameters(text)), texts[0])


def with_user_comment(tiff: bytes | None, text: str) -> bytes:
    """With this comment instead of the one that is there, or `DamagedMetadataError`."""
    parsed = _Tiff.empty() if tiff is None else _Tiff(tiff)
    codec = "utf-16-le" if parsed.order == "<" else "utf-16-be"
    value = _ASCII_CODE + text.encode() if text.isascii() else _UNICODE + text.encode(codec)
    entry = _comment_entry(parsed)
    if entry is None:
        _add_comment_entry(parsed)
        entry = _comment_entry(parsed)
    if entry is None:
        raise _DAMAGED
    parsed.value(entry)
    parsed.clear(entry, 0)
    at = parsed.append(value)
    parsed.write("HII", entry.at + 2, _UNDEFINED, len(value), at)
    return bytes(parsed.data)


def _add_comment_entry(tiff: _Tiff) -> None:
    directory = tiff.exif
    comment = (_USER_COMMENT, _UNDEFINED, 0, b"\0" * 4)
    if directory is None:
        # A directory of its own, beginning with the version, which the standard demands.
        directory = tiff.grown(tiff.append(b"\0" * 6), _VERSION_ENTRY)
        pointer = struct.pack(tiff.order + "I", tiff.grown(directory, comment))
        tiff.write("I", 4, tiff.grown(tiff.first, (_EXIF_POINTER, _LONG, 1, pointer)))
        return
    grown = tiff.grown(directory, comment)
    pointer_entry = tiff.find(tiff.first, _EXIF_POINTER)
    if pointer_entry is not None:
        tiff.write("I", pointer_entry.at + 8, grown)


def has_parameters(tiff: bytes) -> bool:
    """Whether a tool recorded the prompt in it."""
    return next(_prompt_entries(_Tiff(tiff)), None) is not None


def without_parameters(tiff: bytes) -> bytes:
    """With every record of the prompt blanked: its bytes are gone, its place stays."""
    parsed = _Tiff(tiff)
    for entry in list(_prompt_entries(parsed)):
        # Eight zero bytes are the standard's way to write a comment that says nothing.
        parsed.clear(entry, 8 if entry.tag == _USER_COMMENT else 1)
    return bytes(parsed.data)


def without_thumbnail(tiff: bytes) -> bytes:
    """Without the small copy of the picture: nothing leads to it, and its bytes are blank."""
    parsed = _Tiff(tiff)
    link = parsed.link(parsed.first)
    second = parsed.long(link)
    if not second:
        return tiff
    at, length = (parsed.find(second, tag) for tag in (_THUMBNAIL_AT, _THUMBNAIL_LENGTH))
    if at is not None and length is not None:
        start = parsed.long(at.value)
        end = min(start + parsed.long(length.value), len(tiff))
        parsed.data[start:end] = bytes(max(end - start, 0))
    parsed.write("I", link, 0)
    return bytes(parsed.data)


def without_mentions(tiff: bytes, mentions: Mentions) -> bytes:
    """With every value blanked of which that is true. Where that can't be done, or isn't enough,
    nothing is left: what a private text stands in is not worth it."""
    try:
        parsed = _Tiff(tiff)
        for entry in list(_byte_entries(parsed)):
            if any(map(mentions, read_every_way(parsed.value(entry)))):
                parsed.clear(entry, 8 if entry.tag == _USER_COMMENT else 1)
        blanked = bytes(parsed.data)
    except DamagedMetadataError:
        blanked = tiff
    return _EMPTY if any(map(mentions, read_every_way(blanked))) else blanked


def _byte_entries(tiff: _Tiff) -> Iterator[_Entry]:
    for directory in (tiff.first, tiff.exif):
        if directory is not None:
            yield from (entry for entry in tiff.entries(directory) if entry.kind in _OF_BYTES)


def _prompt_entries(tiff: _Tiff) -> Iterator[_Entry]:
    comment = _comment_entry(tiff)
    if comment is not None and is_parameters(_decoded(tiff.value(comment), tiff.order)):
        yield comment
    for entry in tiff.entries(tiff.first):
        if entry.tag in {_DESCRIPTION, _MAKE, _MODEL}:
            with suppress(DamagedMetadataError):
                if is_parameters(tiff.value(entry).decode("utf-8", "replace")):
                    yield entry
