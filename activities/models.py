"""What crosses the border between workflows and activities: pydantic models only.

Image bytes never do: they go to the artifact store, and an `ArtifactRef` crosses instead.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import to_json

from activities.errors import ErrorKind
from activities.refs import MAX_STEPS, ArtifactRef, CheckpointRef
from activities.values import Model, UtcTime

MIN_SIDE, MAX_SIDE = 64, 2048
MAX_PROMPT_LENGTH = 8000
SEED_LIMIT = 2**64
MAX_OPTIONS_BYTES = 64 * 1024

MAX_WORKER_LENGTH = 500
MAX_NOTE_LENGTH = 500


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
