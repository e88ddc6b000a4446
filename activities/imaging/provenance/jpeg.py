"""JPEG: metadata in the segments before the first scan; the scans are never touched.

Exif 2.32 section 4.5.4, XMP specification part 3 section 1.1.3, ICC.1 annex B.4.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple, Self, TypeAlias

from activities.imaging.provenance.errors import DamagedMetadataError
from activities.imaging.provenance.files import MAX_PARTS, MAX_XMP_BYTES, ImageFile
from activities.imaging.provenance.texts import is_parameters
from activities.imaging.provenance.wording import Mentions, read_every_way

SIGNATURE = b"\xff\xd8\xff"
_EXIF, _XMP = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
_EXTENSION, _ICC = b"http://ns.adobe.com/xmp/extension/\0", b"ICC_PROFILE\0"
_SOS, _EOI, _COM, _APP0, _APP1, _APP2, _APP11, _APP13, _APP15 = (
    0xDA,
    0xD9,
    0xFE,
    0xE0,
    0xE1,
    0xE2,
    0xEB,
    0xED,
    0xEF,
)
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_END = bytes((0xFF, _EOI))
_MAX_BODY = 65_533
_EXTENSION_STEP = 65_400
_ICC_STEP = _MAX_BODY - len(_ICC) - 2
# The type of the JUMBF box that holds a C2PA manifest store (C2PA 2.2, section 11.1.4.2).
_C2PA_STORE = bytes.fromhex("63327061 0011 0010 8000 00aa00389b71")
_DAMAGED = DamagedMetadataError("The JPEG file is damaged.")


class Segment(NamedTuple):
    """One marker segment without its length."""

    marker: int
    body: bytes

    def is_of(self, marker: int, prefix: bytes = b"") -> bool:
        return self.marker == marker and self.body.startswith(prefix)

    @property
    def is_carried(self) -> bool:
        """Whether it says something of the picture, not of how this file codes it."""
        if self.marker == _APP2:
            return self.body.startswith(_ICC)
        return self.marker in {_COM, _APP1, _APP13}

    @property
    def is_free_text(self) -> bool:
        """Whether anybody may have written anything there."""
        known = (_EXIF, _XMP, _EXTENSION, _ICC)
        return self.marker == _COM or (
            _APP0 <= self.marker <= _APP15 and not self.body.startswith(known)
        )

    @property
    def box_number(self) -> bytes | None:
        """Which JUMBF box it is a part of."""
        return self.body[2:4] if self.is_of(_APP11, b"JP") else None


Predicate: TypeAlias = Callable[[Segment], bool]


@dataclass(frozen=True)
class JpegFile(ImageFile):
    """`scans` is everything from the first scan on."""

    segments: tuple[Segment, ...]
    scans: bytes
    xmp_limit = _MAX_BODY - len(_XMP)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        segments: list[Segment] = []
        at = 2
        while len(segments) <= MAX_PARTS:
            # A marker may have any number of fill bytes before it.
            while data[at : at + 2] == b"\xff\xff":
                at += 1
            if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] in {0, _EOI}:
                raise _DAMAGED
            marker, length = struct.unpack_from(">BH", data, at + 1)
            if length < 2 or at + 2 + length > len(data):
                raise _DAMAGED
            if marker == _SOS:
                if b"\xff\xd9" not in data[at:]:
                    raise _DAMAGED
                return cls(tuple(segments), data[at:])
            segments.append(Segment(marker, data[at + 4 : at + 2 + length]))
            at += 2 + length
        raise _DAMAGED

    def to_bytes(self) -> bytes:
        parts = [b"\xff\xd8"]
        for marker, body in self.segments:
            parts += [struct.pack(">BBH", 0xFF, marker, len(body) + 2), body]
        return b"".join([*parts, self.scans])

    @property
    def size(self) -> tuple[int, int]:
        frame = next((s.body for s in self.segments if s.marker in _FRAMES), b"")
        if len(frame) < 6:
            raise _DAMAGED
        height, width = struct.unpack_from(">HH", frame, 1)
        return width, height

    def _bodies(self, marker: int, prefix: bytes = b"") -> list[bytes]:
        return [s.body[len(prefix) :] for s in self.segments if s.is_of(marker, prefix)]

    def _without(self, is_gone: Predicate) -> Self:
        return replace(self, segments=tuple(s for s in self.segments if not is_gone(s)))

    def _with(self, new: list[Segment], instead_of: Predicate, behind: Predicate) -> Self:
        """The new ones where the first of the old ones was, or else behind the leading segments
        that stay in front of them."""
        old = next((n for n, segment in enumerate(self.segments) if instead_of(segment)), None)
        leading = sum(1 for _ in takewhile(behind, self.segments))
        at = leading if old is None else old
        kept = [segment for segment in self.segments[at:] if not instead_of(segment)]
        return replace(self, segments=(*self.segments[:at], *new, *kept))

    @property
    def xmp(self) -> tuple[bytes, ...]:
        packets = self._bodies(_APP1, _XMP)
        extension = self._extension(packets[0]) if packets else None
        return tuple(packets[:1]) if extension is None else (packets[0], extension)

    def _extension(self, packet: bytes) -> bytes | None:
        """The packet that this one names by its MD5, where all of it is there."""
        parts: list[tuple[int, bytes]] = []
        for body in self._bodies(_APP1, _EXTENSION):
            if len(body) > 40 and body[:32] in packet:
                parts.append((int.from_bytes(body[36:40], "big"), body[40:]))
        joined = b"".join(part for _, part in sorted(parts))
        if not joined or len(joined) > MAX_XMP_BYTES or _guid(joined) not in packet:
            return None
        return joined

    def with_xmp(self, packets: tuple[bytes, ...]) -> Self:
        new = [Segment(_APP1, _XMP + packets[0])]
        for extension in packets[1:]:
            for at in range(0, len(extension), _EXTENSION_STEP):
                head = _EXTENSION + _guid(extension) + struct.pack(">II", len(extension), at)
                new.append(Segment(_APP1, head + extension[at : at + _EXTENSION_STEP]))
        return self._with(
            new,
            instead_of=lambda s: s.is_of(_APP1, _XMP) or s.is_of(_APP1, _EXTENSION),
            behind=lambda s: s.is_of(_APP0) or s.is_of(_APP1, _EXIF),
        )

    @property
    def exif(self) -> bytes | None:
        return next(iter(self._bodies(_APP1, _EXIF)), None)

    def with_exif(self, tiff: bytes) -> Self:
        if len(_EXIF) + len(tiff) > _MAX_BODY:
            raise DamagedMetadataError("The EXIF data is too large for a JPEG file.")
        return self._with(
            [Segment(_APP1, _EXIF + tiff)],
            instead_of=lambda s: s.is_of(_APP1, _EXIF),
            behind=lambda s: s.is_of(_APP0),
        )

    @property
    def icc(self) -> bytes | None:
        parts = sorted((body[:1], body[2:]) for body in self._bodies(_APP2, _ICC))
        return b"".join(part for _, part in parts) or None

    def with_icc(self, profile: bytes) -> Self:
        steps = range(0, len(profile), _ICC_STEP)
        if len(steps) > 255:
            raise DamagedMetadataError("The colour profile is too large for a JPEG file.")
        new = [
            Segment(_APP2, _ICC + bytes((n, len(steps))) + profile[at : at + _ICC_STEP])
            for n, at in enumerate(steps, 1)
        ]
        return self._with(
            new,
            instead_of=lambda s: s.is_of(_APP2, _ICC),
            behind=lambda s: s.marker in {_APP0, _APP1},
        )

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(_comment(segment) for segment in self.segments if _is_record(segment))

    def with_text(self, text: str) -> Self:
        comment = Segment(_COM, text.encode())
        return self._with([comment], _is_record, behind=lambda s: s.marker >= _APP0)

    def without_parameters(self) -> Self:
        return self._without(_is_record)

    def without_mentions(self, mentions: Mentions) -> Self:
        kept = self._without(
            lambda s: s.is_free_text and any(map(mentions, read_every_way(s.body)))
        )
        picture, end, rest = self.scans.rpartition(_END)
        is_told = any(map(mentions, read_every_way(rest)))
        return replace(kept, scans=picture + end) if is_told else kept

    @property
    def implicit_label(self) -> str | None:
        return None

    def with_implicit_label(self, label: str) -> Self:
        return self

    @property
    def _store_numbers(self) -> set[bytes | None]:
        return {s.box_number for s in self.segments if s.box_number and _C2PA_STORE in s.body[:64]}

    @property
    def has_credentials(self) -> bool:
        return bool(self._store_numbers)

    def without_credentials(self) -> Self:
        numbers = self._store_numbers
        return self._without(lambda s: s.box_number in numbers)

    def with_all_of(self, source: Self) -> Self:
        """A kind that the source has none of stays as it is here."""
        carried = [segment for segment in source.segments if segment.is_carried]
        kinds = {_kind(segment) for segment in carried}
        return self._with(
            carried,
            instead_of=lambda s: s.is_carried and _kind(s) in kinds,
            behind=lambda s: s.is_of(_APP0),
        )


def _comment(segment: Segment) -> str:
    return segment.body.decode("utf-8", "replace")


def _is_record(segment: Segment) -> bool:
    return segment.is_of(_COM) and is_parameters(_comment(segment))


def _kind(segment: Segment) -> tuple[int, bytes]:
    return segment.marker, segment.body.partition(b"\0")[0] if segment.marker != _COM else b""


def _guid(packet: bytes) -> bytes:
    """The name of an extension is its MD5, by the specification."""
    return hashlib.md5(packet, usedforsecurity=False).hexdigest().upper().encode()
