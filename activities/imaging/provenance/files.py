"""What the three kinds of image file have in common, as far as metadata goes."""

import zlib
from abc import ABC, abstractmethod
from typing import Self

from activities.imaging.provenance.errors import DamagedMetadataError
from activities.imaging.provenance.wording import Mentions

# Far more than anything here writes; metadata above it isn't read, so that it can't take memory.
MAX_XMP_BYTES = 1024 * 1024
MAX_TEXT_BYTES = 1024 * 1024
MAX_ICC_BYTES = 4 * 1024 * 1024
# A 64-megapixel PNG in the usual chunks of 8 kB has 32,000.
MAX_PARTS = 200_000

PARAMETERS_KEYWORD = "parameters"


class ImageFile(ABC):
    """A file taken apart into its segments; immutable, every `with_…` gives another one.

    What isn't changed keeps its bytes. A packet is one XMP document; there are two where a
    JPEG's second one takes what the first has no room for.
    """

    # The bytes that one packet may have, where the format limits it.
    xmp_limit: int | None = None

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, as the file's headers say."""

    @property
    @abstractmethod
    def xmp(self) -> tuple[bytes, ...]:
        """No packet, the packet, or the packet and its extension."""

    @abstractmethod
    def with_xmp(self, packets: tuple[bytes, ...]) -> Self: ...

    @property
    @abstractmethod
    def exif(self) -> bytes | None:
        """As a TIFF, without any prefix."""

    @abstractmethod
    def with_exif(self, tiff: bytes) -> Self:
        """Raises `DamagedMetadataError` where it is too large for the format."""

    @property
    @abstractmethod
    def icc(self) -> bytes | None:
        """The colour profile."""

    @abstractmethod
    def with_icc(self, profile: bytes) -> Self: ...

    @property
    @abstractmethod
    def texts(self) -> tuple[str, ...]:
        """What stands where this format keeps a "parameters" text of its own, outside of EXIF."""

    @abstractmethod
    def with_text(self, text: str) -> Self:
        """The text there; unchanged where the format has no such place."""

    @abstractmethod
    def without_parameters(self) -> Self:
        """Without any tool's record of the prompt, EXIF and XMP apart."""

    @abstractmethod
    def without_mentions(self, mentions: Mentions) -> Self:
        """Without anything of which that is true, EXIF and XMP apart."""

    @abstractmethod
    def with_implicit_label(self, label: str) -> Self:
        """The label's JSON where this format keeps it beside XMP, if it does."""

    @property
    @abstractmethod
    def implicit_label(self) -> str | None:
        """That JSON."""

    @property
    @abstractmethod
    def has_credentials(self) -> bool:
        """Whether there is a C2PA manifest store."""

    @abstractmethod
    def without_credentials(self) -> Self: ...

    @abstractmethod
    def with_all_of(self, source: Self) -> Self:
        """All of the source's metadata, byte for byte, but for the signed credentials."""

    @abstractmethod
    def to_bytes(self) -> bytes: ...


def inflate(data: bytes, limit: int) -> bytes:
    """Decompressed, or `DamagedMetadataError` where that would give more than `limit` bytes."""
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise DamagedMetadataError("The file's compressed metadata is damaged.") from error
    if len(inflated) > limit:
        raise DamagedMetadataError("The file's compressed metadata is too large.")
    if not stream.eof:
        raise DamagedMetadataError("The file's compressed metadata is cut off.")
    return inflated
