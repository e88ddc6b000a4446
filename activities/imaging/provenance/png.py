"""PNG: metadata in chunks (PNG, third edition, section 11.3); pixels in IDAT are never touched."""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

from activities.imaging.provenance.errors import DamagedMetadataError
from activities.imaging.provenance.files import (
    MAX_ICC_BYTES,
    MAX_PARTS,
    MAX_TEXT_BYTES,
    MAX_XMP_BYTES,
    PARAMETERS_KEYWORD,
    ImageFile,
    inflate,
)
from activities.imaging.provenance.wording import Mentions, read_every_way

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_XMP_KEYWORD = "XML:com.adobe.xmp"
_LABEL_KEYWORD = "AIGC"
# Where ComfyUI, InvokeAI and others write the prompt, or a graph that has it inside.
_PROMPT_KEYWORDS = frozenset(
    {PARAMETERS_KEYWORD, "prompt", "workflow", "generation_data", "sd-metadata", "Dream"}
    | {"invokeai_metadata", "invokeai_graph", "invokeai_workflow"}
)
_TEXT_KINDS = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_COLOUR_KINDS = frozenset({b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"cICP", b"mDCV", b"cLLI"})
_DAMAGED = DamagedMetadataError("The PNG file is damaged.")


class Chunk(NamedTuple):
    """One chunk without its length and checksum, which follow from it."""

    kind: bytes
    body: bytes

    @property
    def keyword(self) -> str | None:
        """Of a text chunk."""
        if self.kind not in _TEXT_KINDS:
            return None
        return self.body.partition(b"\0")[0].decode("latin-1")

    @property
    def is_carried(self) -> bool:
        """Whether it says something of the picture that holds for a new coding of it as well:
        ancillary, and by its own word (the case of its fourth letter) safe to copy, or known."""
        if self.kind in _COLOUR_KINDS or self.kind in {b"eXIf", b"pHYs", b"tIME"}:
            return True
        return bool(self.kind[0] & 0x20 and self.kind[3] & 0x20)


@dataclass(frozen=True)
class PngFile(ImageFile):
    """`rest` is what follows IEND: not ours to drop."""

    chunks: tuple[Chunk, ...]
    rest: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        chunks: list[Chunk] = []
        at = len(SIGNATURE)
        while not chunks or chunks[-1].kind != b"IEND":
            if len(chunks) > MAX_PARTS or at + 12 > len(data):
                raise _DAMAGED
            length, kind = struct.unpack_from(">I4s", data, at)
            end = at + 8 + length
            if data[end : end + 4] != zlib.crc32(data[at + 4 : end]).to_bytes(4, "big"):
                raise _DAMAGED
            chunks.append(Chunk(kind, data[at + 8 : end]))
            at = end + 4
        file = cls(tuple(chunks), data[at:])
        file._check()
        return file

    def _check(self) -> None:
        first = self.chunks[0]
        if first.kind != b"IHDR" or len(first.body) != 13 or not self._has(b"IDAT"):
            raise _DAMAGED

    def _has(self, kind: bytes) -> bool:
        return any(chunk.kind == kind for chunk in self.chunks)

    def to_bytes(self) -> bytes:
        parts = [SIGNATURE]
        for kind, body in self.chunks:
            checksum = zlib.crc32(body, zlib.crc32(kind))
            parts += [struct.pack(">I4s", len(body), kind), body, struct.pack(">I", checksum)]
        return b"".join([*parts, self.rest])

    @property
    def size(self) -> tuple[int, int]:
        width, height = struct.unpack_from(">II", self.chunks[0].body)
        return width, height

    @cached_property
    def _first_texts(self) -> dict[str, Chunk]:
        texts: dict[str, Chunk] = {}
        for chunk in self.chunks:
            if chunk.keyword is not None:
                texts.setdefault(chunk.keyword, chunk)
        return texts

    def _text(self, keyword: str, limit: int) -> bytes | None:
        chunk = self._first_texts.get(keyword)
        return None if chunk is None else _text_of(chunk, limit)

    def _with(self, new: Chunk, dropped: Iterable[Chunk], before: bytes = b"IDAT") -> Self:
        """The new chunk instead of the dropped ones, in front of the first one of that kind."""
        gone = set(dropped)
        kept = [chunk for chunk in self.chunks if chunk not in gone]
        at = next(i for i, chunk in enumerate(kept) if chunk.kind in {before, b"IDAT"})
        return replace(self, chunks=(*kept[:at], new, *kept[at:]))

    def _with_text(self, keyword: str, text: str) -> Self:
        return self._with(text_chunk(keyword, text), self._of_keywords({keyword}))

    def _of_keywords(self, keywords: Iterable[str]) -> list[Chunk]:
        return [chunk for chunk in self.chunks if chunk.keyword in set(keywords)]

    @property
    def xmp(self) -> tuple[bytes, ...]:
        packet = self._text(_XMP_KEYWORD, MAX_XMP_BYTES)
        return () if packet is None else (packet,)

    def with_xmp(self, packets: tuple[bytes, ...]) -> Self:
        body = _XMP_KEYWORD.encode() + b"\0\0\0\0\0" + packets[0]
        return self._with(Chunk(b"iTXt", body), self._of_keywords({_XMP_KEYWORD}))

    @property
    def exif(self) -> bytes | None:
        return next((chunk.body for chunk in self.chunks if chunk.kind == b"eXIf"), None)

    def with_exif(self, tiff: bytes) -> Self:
        return self._with(Chunk(b"eXIf", tiff), [c for c in self.chunks if c.kind == b"eXIf"])

    @property
    def icc(self) -> bytes | None:
        body = next((chunk.body for chunk in self.chunks if chunk.kind == b"iCCP"), None)
        return None if body is None else inflate(body.partition(b"\0")[2][1:], MAX_ICC_BYTES)

    def with_icc(self, profile: bytes) -> Self:
        body = b"ICC Profile\0\0" + _stored(profile)
        colour = [chunk for chunk in self.chunks if chunk.kind in _COLOUR_KINDS]
        return self._with(Chunk(b"iCCP", body), colour, before=b"PLTE")

    @property
    def texts(self) -> tuple[str, ...]:
        found = (self._text(keyword, MAX_TEXT_BYTES) for keyword in sorted(_PROMPT_KEYWORDS))
        return tuple(text.decode("utf-8", "replace") for text in found if text is not None)

    def with_text(self, text: str) -> Self:
        return self._with_text(PARAMETERS_KEYWORD, text)

    def without_parameters(self) -> Self:
        gone = set(self._of_keywords(_PROMPT_KEYWORDS))
        return replace(self, chunks=tuple(chunk for chunk in self.chunks if chunk not in gone))

    def without_mentions(self, mentions: Mentions) -> Self:
        kept = tuple(chunk for chunk in self.chunks if not _mentions(chunk, mentions))
        is_told = any(map(mentions, read_every_way(self.rest)))
        return replace(self, chunks=kept, rest=b"" if is_told else self.rest)

    @property
    def implicit_label(self) -> str | None:
        label = self._text(_LABEL_KEYWORD, MAX_TEXT_BYTES)
        return None if label is None else label.decode("utf-8", "replace")

    def with_implicit_label(self, label: str) -> Self:
        return self._with_text(_LABEL_KEYWORD, label)

    @property
    def has_credentials(self) -> bool:
        return self._has(b"caBX")

    def without_credentials(self) -> Self:
        return replace(self, chunks=tuple(c for c in self.chunks if c.kind != b"caBX"))

    def with_all_of(self, source: Self) -> Self:
        """In front of the pixels, where colour must stand; a kind that the source has none of
        stays as it is here."""
        carried = [chunk for chunk in source.chunks if chunk.is_carried]
        groups = {_group(chunk.kind) for chunk in carried}
        kept = [c for c in self.chunks if not (c.is_carried and _group(c.kind) in groups)]
        return replace(self, chunks=(kept[0], *carried, *kept[1:]))


def _group(kind: bytes) -> bytes:
    """Chunks that are replaced together: texts, and all that says what a colour means."""
    if kind in _TEXT_KINDS:
        return b"text"
    return b"colour" if kind in _COLOUR_KINDS else kind


def _mentions(chunk: Chunk, mentions: Mentions) -> bool:
    """Of what isn't the picture, its colours, EXIF or XMP."""
    is_known = chunk.keyword == _XMP_KEYWORD or chunk.kind in _COLOUR_KINDS | {b"eXIf"}
    if is_known or not chunk.kind[0] & 0x20:
        return False
    if any(map(mentions, read_every_way(chunk.body))):
        return True
    try:
        text = _text_of(chunk, MAX_TEXT_BYTES) if chunk.keyword is not None else b""
    # What can't be looked into may have anything in it.
    except DamagedMetadataError:
        return True
    return mentions(text.decode("utf-8", "replace"))


def text_chunk(keyword: str, text: str) -> Chunk:
    """tEXt for ASCII, which every tool reads the same way; iTXt, which is UTF-8, otherwise."""
    if text.isascii():
        return Chunk(b"tEXt", f"{keyword}\0{text}".encode("ascii"))
    return Chunk(b"iTXt", f"{keyword}\0\0\0\0\0{text}".encode())


def _text_of(chunk: Chunk, limit: int) -> bytes:
    """As UTF-8, whatever the kind of chunk."""
    body = chunk.body.partition(b"\0")[2]
    if chunk.kind == b"iTXt":
        compressed, rest = body[:1], body[2:]
        text = rest.partition(b"\0")[2].partition(b"\0")[2]
        text = inflate(text, limit) if compressed == b"\1" else text
    else:
        text = inflate(body[1:], limit) if chunk.kind == b"zTXt" else body
        text = text.decode("latin-1").encode()
    if len(text) > limit:
        raise DamagedMetadataError("The file's text metadata is too large.")
    return text


def _stored(data: bytes) -> bytes:
    """A zlib stream of stored blocks: compressed ones differ between versions of zlib."""
    blocks = [data[at : at + 0xFFFF] for at in range(0, len(data), 0xFFFF)] or [b""]
    parts = [b"\x78\x01"]
    for number, block in enumerate(blocks, 1):
        parts.append(struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF))
        parts.append(block)
    return b"".join([*parts, zlib.adler32(data).to_bytes(4, "big")])
