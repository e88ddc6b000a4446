"""What crosses the border between workflows and activities: pydantic models only.

Image bytes never do: they go to the artifact store, and an `ArtifactRef` crosses instead.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic_core import to_json

from activities.errors import ErrorKind


class Model(BaseModel):
    """A value: never changed after it was built. Unknown fields are ignored, so that a worker of
    an older build still reads what a newer one wrote."""

    model_config = ConfigDict(frozen=True)


def _in_utc(at: datetime) -> datetime:
    wanted = "must be a time in the years 2000 to 2200"
    try:
        at = at.astimezone(UTC)
    # A zone that moves the time out of the calendar.
    except OverflowError as error:
        raise ValueError(wanted) from error
    if not 2000 <= at.year <= 2200:
        raise ValueError(wanted)
    return at


# Of years in which every sum of a time and a limit is a time too.
UtcTime = Annotated[AwareDatetime, AfterValidator(_in_utc)]

MIN_SIDE, MAX_SIDE = 64, 2048
MAX_PROMPT_LENGTH = 8000
SEED_LIMIT = 2**64
MAX_OPTIONS_BYTES = 64 * 1024

MAX_WORKER_LENGTH = 500
MAX_NOTE_LENGTH = 500

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


def _not_too_large(options: dict[str, Any]) -> dict[str, Any]:
    """Measured as it is written, which may be many times what was read: 1e15 has 18 digits."""
    if len(to_json(options)) > MAX_OPTIONS_BYTES:
        raise ValueError(f"must not be larger than {MAX_OPTIONS_BYTES:,} bytes of JSON")
    return options


class GenerationParameters(Model):
    """All that decides which picture comes out. Words as in diffusers; sizes in pixels."""

    prompt: str = Field(min_length=1, max_length=MAX_PROMPT_LENGTH)
    negative_prompt: str = Field(default="", max_length=MAX_PROMPT_LENGTH)
    width: int = Field(default=1024, ge=MIN_SIDE, le=MAX_SIDE)
    height: int = Field(default=1024, ge=MIN_SIDE, le=MAX_SIDE)
    num_inference_steps: int = Field(default=30, ge=1, le=150)
    guidance_scale: float = Field(default=7.5, ge=0, le=50, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, lt=SEED_LIMIT)
    engine_options: Annotated[dict[str, Any], AfterValidator(_not_too_large)] = Field(
        default_factory=dict
    )


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


class DrawnLabel(Model):
    """The service's own label on an image: its box, and what was there before.

    `box` is left, top, right, bottom in pixels. `pristine` is the box alone where the image is
    lossless, else the whole image. `profile` is the sha256 of the label's profile, which the store
    keeps for all images that carry it: what is drawn today may be another.
    """

    box: tuple[int, int, int, int]
    pristine: ArtifactRef
    profile: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class RemovedLabel(Model):
    """How a visible label was removed, and what of it can still be seen.

    `residual` is the presence test's answer afterwards, -1 to 1; `is_clean` whether that is below
    what an eye notices. `profile` names the label, `method` how its pixels were found again.
    """

    profile: str = Field(max_length=100)
    method: Literal["pristine", "inverse", "jpeg"]
    residual: float = Field(ge=-1, le=1, allow_inf_nan=False)
    is_clean: bool


class RemovalParameters(Model):
    """What the remover of labels is given: files of the attempt's own, and whose label it is.

    `pristine`, `box` and `profile` are those of the service's own label, if the image has one.
    """

    source: str
    media_type: str
    pristine: str | None = None
    box: tuple[int, int, int, int] | None = None
    profile: str | None = None


class CarriedProvenance(Model):
    """What a stored image says about its origin, as it was read back from its bytes."""

    digital_source_type: str | None = Field(default=None, max_length=200)
    aigc: dict[str, str] | None = Field(default=None, max_length=20)
    has_parameters: bool = False
    content_credentials: Literal["absent", "present"] = "absent"


class RemovalTask(Model):
    """An image of this service that is to be freed of its visible label, and who asked for it.

    `label` is there if the label is the service's own. Whoever asked has accepted the terms.
    """

    source: ArtifactRef
    label: DrawnLabel | None = None
    asked_by: str = Field(min_length=1, max_length=200)
    asked_at: UtcTime

    def is_of(self, job_id: str) -> bool:
        """Whether image and label can be that job's."""
        is_own = self.label is None or self.label.pristine.is_pristine_of(job_id)
        return self.source.is_of(job_id) and is_own


class CheckpointRef(Model):
    """Points at a checkpoint in the artifact store, taken after `step` steps."""

    key: str = Field(max_length=200)
    step: int = Field(ge=0, le=MAX_STEPS)

    def is_of(self, job_id: str) -> bool:
        """Whether it is one that this job's attempts can have stored."""
        match = _CHECKPOINT_KEY.fullmatch(self.key)
        return match is not None and match[1] == job_id and int(match[2]) == self.step


class Phase(StrEnum):
    """What an attempt is doing now; each phase has a stall limit of its own."""

    LOAD = "load"
    STEP = "step"
    DECODE = "decode"
    STORE = "store"


class Progress(Model):
    """How far an attempt is. `at` is when it last moved, by the worker's clock."""

    percent: int = Field(ge=0, le=100)
    step: int = Field(ge=0, le=MAX_STEPS)
    total_steps: int = Field(ge=0, le=MAX_STEPS)
    phase: Phase
    at: UtcTime


class AttemptHeartbeat(Model):
    """The details of each heartbeat: all that is known of an attempt if its worker dies now.

    `idle_seconds` is the time since the last progress by the worker's monotonic clock, so that
    a reader needs no agreement between two wall clocks; where the attempt has not yet got beyond
    what it began with (`has_moved`), since it began. `load` is the worker's load per core.
    `sent_at` is Temporal's clock, as the claim told it, and rather late than early; None where the
    claim told none.
    """

    progress: Progress
    idle_seconds: float = Field(ge=0, allow_inf_nan=False)
    checkpoint: CheckpointRef | None
    load: float
    has_moved: bool = True
    sent_at: UtcTime | None = None


# The type of the error by which a job refuses a claim.
CLAIM_REFUSED = "CLAIM_REFUSED"


class ClaimInput(Model):
    """Asks the job for the right to start: sent by a worker before it touches its engine."""

    dispatch: int
    worker: str = Field(min_length=1, max_length=MAX_WORKER_LENGTH)


class ClaimResult(Model):
    """The job is granted, at a time by Temporal's clock: the worker's own may be set meanwhile."""

    granted_at: UtcTime


class WorkInput(Model):
    """One attempt, for every job type. `dispatch` grows with every activity that is scheduled.

    A removal has its task beside the parameters that its image was made with.
    """

    job_id: str
    tenant: str
    dispatch: int
    parameters: GenerationParameters
    checkpoint: CheckpointRef | None = None
    predecessor_id: str | None = None
    removal: RemovalTask | None = None

    @property
    def total_steps(self) -> int:
        """How many steps are expected, until the work itself tells."""
        return 1 if self.removal else self.parameters.num_inference_steps


class StopReason(StrEnum):
    """Why an attempt ended at a checkpoint instead of with an image."""

    PAUSE = "pause"
    OPERATOR_PAUSE = "operator_pause"
    WORKER_STOPPING = "worker_stopping"


class WorkResult(Model):
    """How an attempt ended: with an artifact, or stopped with what it needs to go on elsewhere."""

    artifact: ArtifactRef | None = None
    stopped: StopReason | None = None
    checkpoint: CheckpointRef | None = None
    progress: Progress | None = None
    worker: str = Field(max_length=MAX_WORKER_LENGTH)
    note: str = Field(default="", max_length=MAX_NOTE_LENGTH)
    label: DrawnLabel | None = None
    removed: RemovedLabel | None = None
    provenance: CarriedProvenance | None = None


class FailureReport(Model):
    """Travels as the details of a failed attempt's ApplicationError."""

    kind: ErrorKind
    worker: str = Field(max_length=MAX_WORKER_LENGTH)
    load: float = 0.0
    retry_after_seconds: float | None = None
    checkpoint: CheckpointRef | None = None
    progress: Progress | None = None
