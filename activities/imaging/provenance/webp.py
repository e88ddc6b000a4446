"""WebP: metadata in RIFF chunks (RFC 9649, section 2.7); the picture's own are never touched."""

import struct
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from activities.imaging.provenance.errors import DamagedMetadataError
from activities.imaging.provenance.files import MAX_PARTS, ImageFile
from activities.imaging.provenance.wording import Mentions, read_every_way

_ICC_FLAG, _ALPHA_FLAG, _EXIF_FLAG, _XMP_FLAG, _ANIMATION_FLAG = 0x20, 0x10, 0x08, 0x04, 0x02
_FLAGS = {
    b"ICCP": _ICC_FLAG,
    b"ALPH": _ALPHA_FLAG,
    b"EXIF": _EXIF_FLAG,
    b"XMP ": _XMP_FLAG,
    b"ANIM": _ANIMATION_FLAG,
}
# The picture itself, and what has a reader of its own.
_STRUCTURE = frozenset({b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF"})
_CARRIED = frozenset({b"ICCP", b"EXIF", b"XMP "})
_DAMAGED = DamagedMetadataError("The WebP file is damaged.")


class Chunk(NamedTuple):
    """One chunk without its length and padding."""

    kind: bytes
    body: bytes


def is_webp(data: bytes) -> bool:
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


@dataclass(frozen=True)
class WebpFile(ImageFile):
    """`rest` is what follows the RIFF: not ours to drop."""

    chunks: tuple[Chunk, ...]
    rest: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        end = 8 + int.from_bytes(data[4:8], "little")
        chunks: list[Chunk] = []
        at = 12
        while at < end:
            kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
            if len(chunks) > MAX_PARTS or at + 8 + length > min(end, len(data)):
                raise _DAMAGED
            chunks.append(Chunk(kind, data[at + 8 : at + 8 + length]))
            at += 8 + length + length % 2
        file = cls(tuple(chunks), data[at:])
        if not chunks or min(file.size) < 1:
            raise _DAMAGED
        return file

    def to_bytes(self) -> bytes:
        parts = [b"WEBP"]
        for kind, body in self.chunks:
            parts += [kind, len(body).to_bytes(4, "little"), body, b"\0" * (len(body) % 2)]
        content = b"".join(parts)
        return b"".join([b"RIFF", len(content).to_bytes(4, "little"), content, self.rest])

    @property
    def size(self) -> tuple[int, int]:
        kind, body = self.chunks[0]
        if kind == b"VP8X" and len(body) == 10:
            return _canvas(body)
        if kind == b"VP8L" and len(body) >= 5 and body[0] == 0x2F:
            bits = int.from_bytes(body[1:5], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        if kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a" and len(body) >= 10:
            width, height = struct.unpack_from("<HH", body, 6)
            return width & 0x3FFF, height & 0x3FFF
        raise _DAMAGED

    def _body(self, kind: bytes) -> bytes | None:
        return next((chunk.body for chunk in self.chunks if chunk.kind == kind), None)

    def _without(self, kinds: AbstractSet[bytes]) -> tuple[Chunk, ...]:
        return tuple(chunk for chunk in self.chunks if chunk.kind not in kinds)

    def _extended(self) -> Self:
        """With the header that says which metadata there is, and its flags right."""
        first = self.chunks[0]
        flags, reserved, size = self._flags(), bytes(3), self.size
        if first.kind == b"VP8X":
            # Alpha and the reserved bits stay as they were: a lossless picture has no ALPH.
            flags |= first.body[0] & ~(_ICC_FLAG | _EXIF_FLAG | _XMP_FLAG)
            reserved = first.body[1:4]
        header = bytes((flags,)) + reserved + b"".join((n - 1).to_bytes(3, "little") for n in size)
        return replace(self, chunks=(Chunk(b"VP8X", header), *self._without({b"VP8X"})))

    def _flags(self) -> int:
        flags = 0
        for kind, body in self.chunks:
            flags |= _FLAGS.get(kind, 0)
            # The lossless bit stream has a bit of its own for alpha.
            if kind == b"VP8L" and len(body) >= 5 and body[4] & 0x10:
                flags |= _ALPHA_FLAG
        return flags

    @property
    def xmp(self) -> tuple[bytes, ...]:
        packet = self._body(b"XMP ")
        return () if packet is None else (packet,)

    def with_xmp(self, packets: tuple[bytes, ...]) -> Self:
        return self._at_the_end(Chunk(b"XMP ", packets[0]))

    def _at_the_end(self, chunk: Chunk) -> Self:
        """Behind the picture, EXIF before XMP, and both before what is unknown."""
        kept = list(self._without({chunk.kind}))
        later = {b"XMP ", b"C2PA"} if chunk.kind == b"EXIF" else {b"C2PA"}
        at = next((i for i, other in enumerate(kept) if other.kind in later), len(kept))
        return replace(self, chunks=(*kept[:at], chunk, *kept[at:]))._extended()

    @property
    def exif(self) -> bytes | None:
        """Without the prefix of JPEG, which some writers leave in front."""
        body = self._body(b"EXIF")
        return None if body is None else body.removeprefix(b"Exif\0\0")

    def with_exif(self, tiff: bytes) -> Self:
        return self._at_the_end(Chunk(b"EXIF", tiff))

    @property
    def icc(self) -> bytes | None:
        return self._body(b"ICCP")

    def with_icc(self, profile: bytes) -> Self:
        header, *others = replace(self, chunks=self._without({b"ICCP"}))._extended().chunks
        return replace(self, chunks=(header, Chunk(b"ICCP", profile), *others))._extended()

    @property
    def texts(self) -> tuple[str, ...]:
        return ()

    def with_text(self, text: str) -> Self:
        return self

    def without_parameters(self) -> Self:
        return self

    def without_mentions(self, mentions: Mentions) -> Self:
        known = _STRUCTURE | _CARRIED
        kept = tuple(
            chunk
            for chunk in self.chunks
            if chunk.kind in known or not any(map(mentions, read_every_way(chunk.body)))
        )
        is_told = any(map(mentions, read_every_way(self.rest)))
        return replace(self, chunks=kept, rest=b"" if is_told else self.rest)

    @property
    def implicit_label(self) -> str | None:
        return None

    def with_implicit_label(self, label: str) -> Self:
        return self

    @property
    def has_credentials(self) -> bool:
        return self._body(b"C2PA") is not None

    def without_credentials(self) -> Self:
        return replace(self, chunks=self._without({b"C2PA"}))

    def with_all_of(self, source: Self) -> Self:
        """A kind that the source has none of stays as it is here."""
        file = self
        if source.icc is not None:
            file = file.with_icc(source.icc)
        for kind, body in source.chunks:
            if kind in _CARRIED - {b"ICCP"}:
                file = file._at_the_end(Chunk(kind, body))
        return file


def _canvas(header: bytes) -> tuple[int, int]:
    width, height = (int.from_bytes(header[at : at + 3], "little") + 1 for at in (4, 7))
    return width, height
