"""What points at bytes in the artifact store, and whose they can be."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import Field

from activities.values import Model

# The kinds of image that are stored, and how their keys end.
IMAGE_EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
)

# Far beyond anything that is made here; what is larger was made up.
_MAX_IMAGE_BYTES = 2**30
MAX_IMAGE_SIDE = 65_536
MAX_STEPS = 1_000_000

_SHA256 = re.compile(r"[0-9a-f]{64}")
# Where images are, and where the pixels are that a label of the service's own covers.
_IMAGES, _PRISTINE = "jobs", "pristine"
_CHECKPOINT_KEY = re.compile(r"checkpoints/([a-z0-9-]{1,100})/[0-9]{1,9}-([0-9]{1,7})", re.ASCII)


class ArtifactRef(Model):
    """Points at image bytes in the artifact store; `sha256` is of exactly those bytes.

    Results can be made up (`temporal activity complete`), so a job asks `is_of` before it believes
    one.
    """

    key: str = Field(max_length=200)
    sha256: str = Field(max_length=64)
    media_type: str = Field(max_length=40)
    byte_size: int = Field(gt=0, le=_MAX_IMAGE_BYTES)
    width: int = Field(gt=0, le=MAX_IMAGE_SIDE)
    height: int = Field(gt=0, le=MAX_IMAGE_SIDE)

    def is_of(self, job_id: str) -> bool:
        """Whether it is an image that this job's attempts can have stored."""
        return self._is_in(f"{_IMAGES}/{job_id}")

    def is_pristine_of(self, job_id: str) -> bool:
        """Whether it is what this job's attempts can have kept of an image before its label."""
        return self._is_in(f"{_PRISTINE}/{job_id}")

    def _is_in(self, folder: str) -> bool:
        extension = IMAGE_EXTENSIONS.get(self.media_type)
        if extension is None or not _SHA256.fullmatch(self.sha256):
            return False
        return self.key == f"{folder}/{self.sha256}.{extension}"


def image_folder(job_id: str) -> str:
    """Where a job's images are; the one that its workflow recorded is the only one that counts."""
    return f"{_IMAGES}/{job_id}"


def pristine_folder(job_id: str) -> str:
    """Where a job keeps, for nobody but itself, what its label covers."""
    return f"{_PRISTINE}/{job_id}"


class CheckpointRef(Model):
    """Points at a checkpoint in the artifact store, taken after `step` steps."""

    key: str = Field(max_length=200)
    step: int = Field(ge=0, le=MAX_STEPS)

    def is_of(self, job_id: str) -> bool:
        """Whether it is one that this job's attempts can have stored."""
        match = _CHECKPOINT_KEY.fullmatch(self.key)
        return match is not None and match[1] == job_id and int(match[2]) == self.step
