"""What is said to a job and about it: its input, and the view that is given of it."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from activities.callbacks.models import MAX_URL_LENGTH, CallbackEvents
from activities.models import (
    CarriedProvenance,
    DrawnLabel,
    GenerationParameters,
    Progress,
    RemovalTask,
    RemovedLabel,
)
from activities.refs import ArtifactRef, CheckpointRef
from activities.values import Model, UtcTime
from workflows.names import JOB_ID_PATTERN
from workflows.state_machine import JobState, Transition

MAX_MESSAGE_LENGTH = 1000

DEFAULT_TENANT = "default"

PendingRequest = Literal["pause", "resume", "cancel"]
JobType = Literal["TEXT_TO_IMAGE", "WATERMARK_REMOVAL"]

# Temporal's fairness key has at most 64 bytes, and lists are filtered by a quoted tenant.
TENANT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.@:-]{0,63}$"
Tenant = Annotated[str, Field(pattern=TENANT_PATTERN)]
_LabelName = Annotated[str, Field(min_length=1, max_length=63)]
_LabelValue = Annotated[str, Field(max_length=255)]

LEAST_TIMEOUT_SECONDS, MOST_TIMEOUT_SECONDS = 10, 86_400
# Temporal takes no others.
LEAST_WEIGHT, MOST_WEIGHT = 0.001, 1000.0


def clip(message: str) -> str:
    """Shorten what somebody else wrote: a job's memo holds every message of its life."""
    fits = len(message) <= MAX_MESSAGE_LENGTH
    return message if fits else message[: MAX_MESSAGE_LENGTH - 1] + "…"


class ImageJobInput(Model):
    """All that a job is asked to do. Times in seconds; `priority` 0 to 9, 9 first.

    `fairness_weight` is the share of its tenant among those whose jobs wait in the same priority.
    """

    type: JobType = "TEXT_TO_IMAGE"
    tenant: Tenant = DEFAULT_TENANT
    engine: str = Field(default="procedural", pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")
    parameters: GenerationParameters
    watermark: Literal["keep", "remove"] = "keep"
    label_terms_accepted: bool = False
    priority: int = Field(default=5, ge=0, le=9)
    fairness_weight: float = Field(
        default=1.0, ge=LEAST_WEIGHT, le=MOST_WEIGHT, allow_inf_nan=False
    )
    timeout_seconds: int = Field(default=1800, ge=LEAST_TIMEOUT_SECONDS, le=MOST_TIMEOUT_SECONDS)
    queue_timeout_seconds: int = Field(default=86_400, ge=10, le=30 * 86_400)
    max_attempts: int = Field(default=3, ge=1, le=10)
    start_at: UtcTime | None = None
    labels: dict[_LabelName, _LabelValue] = Field(default_factory=dict, max_length=16)
    callback_url: str | None = Field(default=None, max_length=MAX_URL_LENGTH)
    callback_events: CallbackEvents = "final"
    # What the tenant's endpoint is told, if it has one; and where links in callbacks begin.
    endpoint_events: CallbackEvents | None = None
    links_base: str = Field(default="", max_length=MAX_URL_LENGTH)
    predecessor_id: str | None = Field(default=None, pattern=f"^{JOB_ID_PATTERN}$")
    removal: RemovalTask | None = None
    retry_of: str | None = Field(default=None, pattern=f"^{JOB_ID_PATTERN}$")
    # What was sent with an idempotency key, as a hash.
    fingerprint: str | None = Field(default=None, max_length=64)

    @model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        """A removal has its image and its predecessor, and nobody gets one without the terms."""
        is_removal = self.type == "WATERMARK_REMOVAL"
        if is_removal != (self.removal is not None):
            raise ValueError("`removal` must be there for a WATERMARK_REMOVAL, and only for that")
        if self.removal and not self.removal.is_of(self.predecessor_id or ""):
            raise ValueError("`removal` must name images of the job `predecessor_id`")
        if (is_removal or self.watermark == "remove") and not self.label_terms_accepted:
            raise ValueError("`label_terms_accepted` must be true for an unlabelled copy")
        return self

    @property
    def wants_removal(self) -> bool:
        """Whether the job has a successor that removes the label of its image."""
        return self.type == "TEXT_TO_IMAGE" and self.watermark == "remove"

    @property
    def queue_timeout(self) -> timedelta:
        """The limit of the time in PENDING since the job could start."""
        return timedelta(seconds=self.queue_timeout_seconds)


class JobError(Model):
    """Why a job has no image. `retryable`: a new job with the same request may succeed."""

    kind: str
    message: str
    retryable: bool


class JobResult(Model):
    """The image of a job that succeeded: its label drawn or removed, and what it says of itself."""

    artifact: ArtifactRef
    seed: int
    label: DrawnLabel | None = None
    removed: RemovedLabel | None = None
    provenance: CarriedProvenance | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """All that must stay in the store."""
        return (self.artifact.key, *((self.label.pristine.key,) if self.label else ()))


class LimitExtension(Model):
    """A job that was still moving when its time ran out got more."""

    at: datetime
    until: datetime
    message: str


class Amendment(Model):
    """What was changed of a job after it was asked for; None is what was left as it was."""

    at: datetime
    source: str
    message: str
    priority: int | None = None
    timeout_seconds: int | None = None


class JobStatus(Model):
    """What changes during a job's life, apart from its transitions; rewritten as a whole.

    `priority` and `timeout_seconds` are None as long as what was asked for is in force.
    """

    dispatch: int = 0
    attempt: int = 0
    worker: str | None = None
    pending_request: PendingRequest | None = None
    startable_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    progress: Progress | None = None
    checkpoint: CheckpointRef | None = None
    result: JobResult | None = None
    error: JobError | None = None
    successor_id: str | None = None
    extensions: tuple[LimitExtension, ...] = ()
    priority: int | None = None
    timeout_seconds: int | None = None
    amendments: tuple[Amendment, ...] = ()

    def priority_of(self, request: ImageJobInput) -> int:
        """The priority in force."""
        return request.priority if self.priority is None else self.priority

    def timeout_of(self, request: ImageJobInput) -> int:
        """The limit in force of the time in PROCESSING, over all attempts; in seconds."""
        return request.timeout_seconds if self.timeout_seconds is None else self.timeout_seconds


class ChainState(StrEnum):
    """How far a chain is, once its first image is there."""

    GENERATED = "GENERATED"
    PROCESSING_WATERMARK = "PROCESSING_WATERMARK"
    FINALIZED = "FINALIZED"
    REMOVAL_FAILED = "REMOVAL_FAILED"


class JobOutcome(Model):
    """What a finished run returns, for whoever waits for the workflow itself."""

    state: JobState
    artifact: ArtifactRef | None = None


class JobView(Model):
    """A job as its workflow knows it, or as its memo tells it when no worker is alive."""

    id: str
    state: JobState
    created_at: datetime
    updated_at: datetime
    request: ImageJobInput | None
    status: JobStatus
    transitions: tuple[Transition, ...]
    waiting_for: str | None = None
    chain: ChainState | None = None
    run_id: str = ""
    is_running: bool = False

    @property
    def tenant(self) -> str:
        """Whose job it is; one whose request can't be read is the default tenant's."""
        return self.request.tenant if self.request else DEFAULT_TENANT

    @property
    def priority(self) -> int:
        """The priority in force; 0 if the request can't be read."""
        return self.status.priority_of(self.request) if self.request else 0

    @property
    def timeout_seconds(self) -> int:
        """The limit in force of the time in PROCESSING; 0 if the request can't be read."""
        return self.status.timeout_of(self.request) if self.request else 0

    @property
    def moment(self) -> tuple[int, str | None, int]:
        """Differs between two views if in between the state changed, a wish came or went, or the
        job was amended."""
        status = self.status
        return len(self.transitions), status.pending_request, len(status.amendments)


def with_status(view: JobView, **changes: object) -> JobView:
    """The view with some fields of its status replaced."""
    return view.model_copy(update={"status": view.status.model_copy(update=changes)})
