"""The segments of a JPEG file: which there are, and whether this service can edit them.

Source of the layout: ITU-T T.81, annex B. Pixels and coefficients are not read here.
"""

import struct
from dataclasses import dataclass

from activities.imaging.errors import UnfitImageError

MAX_PIXELS = 64_000_000

_SOI, _EOI, _SOS, _DQT, _DHT, _DRI, _COM = 0xD8, 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xFE
_APP0, _APP14, _APP15 = 0xE0, 0xEE, 0xEF
_SEQUENTIAL, _EXTENDED, _PROGRESSIVE = 0xC0, 0xC1, 0xC2
_FRAMES = {*range(0xC0, 0xD0)} - {_DHT, 0xC8, 0xCC}
_LOSSLESS = {0xC3, 0xC7, 0xCB, 0xCF}
_RESTARTS = range(0xD0, 0xD8)


@dataclass(frozen=True)
class Component:
    """One colour plane of the frame: its id in the file, its sampling, its quantisation table."""

    id: int
    across: int
    down: int
    table: int


@dataclass(frozen=True)
class Frame:
    """What the file says about its picture. `kind` is the marker that began the segment."""

    kind: int
    width: int
    height: int
    components: tuple[Component, ...]

    @property
    def across(self) -> int:
        """The largest horizontal sampling: an MCU is 8 × this many pixels wide."""
        return max(component.across for component in self.components)

    @property
    def down(self) -> int:
        """The largest vertical sampling: an MCU is 8 × this many pixels high."""
        return max(component.down for component in self.components)


@dataclass(frozen=True)
class Segment:
    """A marker and everything up to the next one, entropy-coded bytes included."""

    marker: int
    content: bytes

    @property
    def is_metadata(self) -> bool:
        """An application segment (JFIF, EXIF, XMP, ICC, C2PA) or a comment."""
        return _APP0 <= self.marker <= _APP15 or self.marker == _COM


@dataclass(frozen=True)
class Stream:
    """A whole file: its frame, its segments from after SOI to before EOI, what follows EOI."""

    frame: Frame
    segments: tuple[Segment, ...]
    trailer: bytes

    def bare(self) -> bytes:
        """The same picture without metadata."""
        kept = [segment.content for segment in self.segments if not segment.is_metadata]
        return b"\xff\xd8" + b"".join(kept) + b"\xff\xd9"

    def with_scan_of(self, written: "Stream") -> bytes:
        """This file with the entropy-coded data of a sequential one of the same frame.

        Metadata, quantisation tables and frame stay byte for byte, but that a progressive file
        becomes a sequential one; Huffman tables and restart intervals come from `written`.
        """
        head = [s.content for s in self.segments if s.is_metadata or s.marker == _DQT]
        frame = next(s.content for s in self.segments if s.marker in _FRAMES)
        if self.frame.kind == _PROGRESSIVE:
            frame = bytes((0xFF, _EXTENDED)) + frame[2:]
        scan = [s.content for s in written.segments if s.marker in (_DHT, _DRI, _SOS)]
        return b"".join((b"\xff\xd8", *head, frame, *scan, b"\xff\xd9", self.trailer))


def read_stream(data: bytes) -> Stream:
    """Take a file apart. Raises UnfitImageError for what cannot be edited, damage included."""
    if data[:2] != b"\xff\xd8":
        raise UnfitImageError("The file is not a JPEG image.")
    try:
        segments, end = _segments(data)
    except (IndexError, struct.error) as error:
        raise UnfitImageError("The JPEG image is cut off or damaged.") from error
    frames = [segment for segment in segments if segment.marker in _FRAMES]
    if len(frames) != 1 or not any(segment.marker == _SOS for segment in segments):
        raise UnfitImageError("The JPEG image is damaged: it does not hold one picture.")
    try:
        frame = _frame(frames[0])
    except (IndexError, struct.error) as error:
        raise UnfitImageError("The JPEG image is damaged: its frame is cut off.") from error
    _refuse_unusual_colours(frame, segments)
    _refuse_moving_tables(segments)
    return Stream(frame, tuple(segments), data[end:])


def _segments(data: bytes) -> tuple[list[Segment], int]:
    """All segments between SOI and EOI, and where the bytes after EOI begin."""
    segments: list[Segment] = []
    at = 2
    while True:
        at = _next_marker(data, at)
        marker = data[at + 1]
        if marker == _EOI:
            return segments, at + 2
        end = at + 2
        if marker not in _RESTARTS and marker not in (_SOI, 0x01):
            (length,) = struct.unpack_from(">H", data, end)
            end += length
            if length < 2 or end > len(data):
                raise IndexError("a segment reaches beyond the file")
        if marker == _SOS:
            end = _end_of_scan(data, end)
        segments.append(Segment(marker, data[at:end]))
        at = end


def _next_marker(data: bytes, at: int) -> int:
    """Where the next marker's 0xFF stands; fill bytes before it are skipped."""
    if data[at] != 0xFF:
        raise IndexError("no marker where one must be")
    while data[at + 1] == 0xFF:
        at += 1
    return at


def _end_of_scan(data: bytes, at: int) -> int:
    """Where entropy-coded data ends: at the first marker that is no restart marker."""
    while True:
        at = data.find(b"\xff", at)
        if at < 0:
            raise IndexError("no end of the scan")
        follows = data[at + 1]
        if follows not in (0x00, 0xFF) and follows not in _RESTARTS:
            return at
        at += 1 if follows == 0xFF else 2


def _frame(segment: Segment) -> Frame:
    """The frame header, if it is of a kind that can be edited."""
    if segment.marker in _LOSSLESS:
        raise UnfitImageError("Lossless JPEG images cannot be edited.")
    if segment.marker not in (_SEQUENTIAL, _EXTENDED, _PROGRESSIVE):
        raise UnfitImageError(
            "JPEG images with arithmetic or hierarchical coding cannot be edited."
        )
    precision, height, width, count = struct.unpack_from(">BHHB", segment.content, 4)
    if precision != 8:
        raise UnfitImageError(f"JPEG images of {precision} bits per colour cannot be edited.")
    if not width or not height or width * height > MAX_PIXELS:
        raise UnfitImageError(f"The JPEG image has an unfit size: {width} × {height} pixels.")
    body = segment.content[10:]
    parts = [body[3 * i : 3 * i + 3] for i in range(count)]
    components = tuple(Component(p[0], p[1] >> 4, p[1] & 15, p[2]) for p in parts)
    return Frame(segment.marker, width, height, components)


def _refuse_unusual_colours(frame: Frame, segments: list[Segment]) -> None:
    count = len(frame.components)
    if count == 4:
        raise UnfitImageError("CMYK JPEG images cannot be edited.")
    if count not in (1, 3):
        raise UnfitImageError(f"JPEG images of {count} colour planes cannot be edited.")
    adobe = [s.content for s in segments if s.marker == _APP14 and s.content[4:9] == b"Adobe"]
    named_rgb = bytes(component.id for component in frame.components) == b"RGB"
    if count == 3 and (named_rgb or any(len(a) > 15 and a[15] == 0 for a in adobe)):
        raise UnfitImageError("JPEG images that store RGB instead of YCbCr cannot be edited.")
    if not all(_is_editable(component, frame) for component in frame.components):
        raise UnfitImageError("The JPEG image is sampled in an unusual way.")


def _is_editable(component: Component, frame: Frame) -> bool:
    """Luma at full resolution, chroma at the full, half or quarter of it."""
    if not component.across or not component.down or component.table > 3:
        return False
    ratios = frame.across / component.across, frame.down / component.down
    is_luma = component is frame.components[0]
    return ratios == (1, 1) if is_luma else all(ratio in (1, 2, 4) for ratio in ratios)


def _refuse_moving_tables(segments: list[Segment]) -> None:
    """Tables that change between scans have more than one meaning: no encoder does it."""
    markers = [segment.marker for segment in segments]
    if _DQT in markers[markers.index(_SOS) :]:
        raise UnfitImageError("The JPEG image changes its quantisation tables midway.")
