"""What crosses the border between workflows and activities: pydantic models only.

Image bytes never do: they go to the artifact store, and an `ArtifactRef` crosses instead.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from activities.errors import ErrorKind


class Model(BaseModel):
    """A value: never changed after it was built. Unknown fields are ignored, so that a worker of
    an older build still reads what a newer one wrote."""

    model_config = ConfigDict(frozen=True)


MIN_SIDE, MAX_SIDE = 64, 2048
MAX_PROMPT_LENGTH = 8000
SEED_LIMIT = 2**64


class GenerationParameters(Model):
    """All that decides which picture comes out. Words as in diffusers; sizes in pixels."""

    prompt: str = Field(min_length=1, max_length=MAX_PROMPT_LENGTH)
    negative_prompt: str = Field(default="", max_length=MAX_PROMPT_LENGTH)
    width: int = Field(default=1024, ge=MIN_SIDE, le=MAX_SIDE)
    height: int = Field(default=1024, ge=MIN_SIDE, le=MAX_SIDE)
    num_inference_steps: int = Field(default=30, ge=1, le=150)
    guidance_scale: float = Field(default=7.5, ge=0, le=50, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, lt=SEED_LIMIT)
    engine_options: dict[str, Any] = Field(default_factory=dict)


class ArtifactRef(Model):
    """Points at image bytes in the artifact store; `sha256` is of exactly those bytes."""

    key: str
    sha256: str
    media_type: str
    byte_size: int
    width: int
    height: int


class CheckpointRef(Model):
    """Points at a checkpoint in the artifact store, taken after `step` steps."""

    key: str
    step: int


class Phase(StrEnum):
    """What an attempt is doing now; each phase has a stall limit of its own."""

    LOAD = "load"
    STEP = "step"
    DECODE = "decode"
    STORE = "store"


class Progress(Model):
    """How far an attempt is. `at` is when it last moved, by the worker's clock."""

    percent: int = Field(ge=0, le=100)
    step: int
    total_steps: int
    phase: Phase
    at: datetime


class AttemptHeartbeat(Model):
    """The details of each heartbeat: all that is known of an attempt if its worker dies now.

    `idle_seconds` is the time since the last progress by the worker's monotonic clock, so that
    a reader needs no agreement between two wall clocks. `load` is the worker's load per core.
    """

    progress: Progress
    idle_seconds: float
    checkpoint: CheckpointRef | None
    load: float


# The type of the error by which a job refuses a claim.
CLAIM_REFUSED = "CLAIM_REFUSED"


class ClaimInput(Model):
    """Asks the job for the right to start: sent by a worker before it touches its engine."""

    dispatch: int
    worker: str = Field(min_length=1, max_length=500)


class WorkInput(Model):
    """One attempt, for every job type. `dispatch` grows with every activity that is scheduled."""

    job_id: str
    tenant: str
    dispatch: int
    parameters: GenerationParameters
    checkpoint: CheckpointRef | None = None


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
    worker: str
    note: str = ""


class FailureReport(Model):
    """Travels as the details of a failed attempt's ApplicationError."""

    kind: ErrorKind
    worker: str
    load: float = 0.0
    retry_after_seconds: float | None = None
    checkpoint: CheckpointRef | None = None
    progress: Progress | None = None
