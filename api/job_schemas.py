"""A job as clients get it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from activities.models import Phase
from api.amending_schemas import AMENDMENTS_DESCRIPTION, AmendmentResponse
from api.fields import UtcTime
from workflows.messages import ChainState, JobType, PendingRequest
from workflows.state_machine import JobEvent, JobState


class Progress(BaseModel):
    """How far the running attempt is."""

    percent: int = Field(description="Grows within an attempt; 100 only with SUCCESS")
    step: int = Field(description="Steps done")
    total_steps: int = Field(description="Steps in all")
    phase: Phase = Field(description="What the attempt is doing")
    at: UtcTime = Field(description="When it last moved")


class RemovalResponse(BaseModel):
    """How a visible label was removed."""

    profile: str = Field(
        examples=["own"], description="Which label: `own`, or the name of a provider's profile"
    )
    method: Literal["pristine", "inverse", "jpeg"] = Field(
        description="`pristine`: the pixels that were kept when the label was drawn; `inverse` and "
        "`jpeg`: computed from the labelled ones, without and with the codec's loss"
    )
    residual: float = Field(
        description="What the presence test still sees of the label: 0 nothing, 1 all of it"
    )
    is_clean: bool = Field(description="Whether that is less than an eye notices")


class ProvenanceResponse(BaseModel):
    """What the file itself says of its origin, as it was read back from its bytes."""

    digital_source_type: str | None = Field(description="IPTC's `DigitalSourceType`, in XMP")
    aigc: dict[str, str] | None = Field(description="The implicit label of GB 45438-2025")
    has_parameters: bool = Field(description="Whether the file tells prompt and parameters")
    content_credentials: Literal["absent", "present"] = Field(
        description="Whether there is a C2PA manifest"
    )


class ResultResponse(BaseModel):
    """The finished image."""

    image_url: str = Field(
        description="Where the bytes are. Where keys are needed, too, this address works without "
        "one, for a while: read the job again for a new one"
    )
    sha256: str = Field(description="Of exactly those bytes, in hexadecimal")
    media_type: str = Field(examples=["image/png"], description="The image's format")
    width: int = Field(description="In pixels")
    height: int = Field(description="In pixels")
    byte_size: int = Field(description="The file's size")
    seed: int = Field(description="The seed that makes the same image again")
    has_label: bool = Field(description="Whether the service drew its visible label on it")
    removal: RemovalResponse | None = Field(
        description="How the visible label was removed, if it was"
    )
    provenance: ProvenanceResponse | None = Field(
        description="What the file says of its origin; null for images of earlier builds"
    )


class ErrorResponse(BaseModel):
    """Why a job has no image."""

    kind: str = Field(examples=["WORKER_LOST"], description="One of the error kinds")
    message: str = Field(description="In words for a user")
    retryable: bool = Field(description="Whether the same request may succeed another time")


class TransitionResponse(BaseModel):
    """One step of the job's life."""

    sequence: int = Field(description="From 1, without gaps")
    at: UtcTime = Field(description="When it happened")
    from_state: JobState = Field(description="The state before")
    to_state: JobState = Field(description="The state after")
    event: JobEvent = Field(description="What happened")
    source: str = Field(
        description="Who: `api:<tenant>`, `worker:<identity>`, `watchdog` or `operator`"
    )
    message: str = Field(description="Why, in words for a user")


class TransitionEvent(TransitionResponse):
    """The `data` of a `transition` in the event stream."""

    job_id: str = Field(description="Whose it is: in a chain, one job's are followed by the next's")


class ExtensionResponse(BaseModel):
    """More time, given to a job that was still moving when its time ran out."""

    at: UtcTime = Field(description="When it was given")
    until: UtcTime = Field(description="The new deadline")
    message: str = Field(description="Why")


# The shape of the request itself, of which an answer only fills in what was left out.
_ASKED = {"anyOf": [{"$ref": "#/components/schemas/CreateJobRequest"}, {"type": "null"}]}


class JobResponse(BaseModel):
    """A job: where it is, why, since when, who put it there, and what can be done with it now."""

    id: str = Field(description="The job's id; its workflow is `job-<id>`")
    type: JobType = Field(description="What kind of work it is")
    state: JobState = Field(description="Where the job is")
    done: bool = Field(description="Whether the state is final")
    pending_request: PendingRequest | None = Field(
        description="What was asked for and is not yet carried out"
    )
    waiting_for: str | None = Field(description="Why the job isn't running, in words")
    progress: Progress | None = Field(description="How far the work is, once it began")
    attempt: int = Field(description="The running or the last attempt, from 1; 0 before the first")
    max_attempts: int = Field(description="Attempts in all")
    worker: str | None = Field(description="The worker of the running or the last attempt")
    priority: int = Field(description="The one in force: 9 is served first, 0 last")
    timeout_seconds: int = Field(
        description="The limit in force of the time in PROCESSING; 0 if it could not be read"
    )
    tenant: str = Field(description="Whose job it is")
    created_at: UtcTime = Field(description="When the job was accepted")
    started_at: UtcTime | None = Field(description="When the first attempt began")
    updated_at: UtcTime = Field(description="When the state last changed")
    finished_at: UtcTime | None = Field(description="When the job became final")
    deadline_at: UtcTime | None = Field(description="When the processing time runs out")
    request: Annotated[dict[str, Any] | None, WithJsonSchema(_ASKED)] = Field(
        description="What was asked, defaults filled in; null if it could not be read"
    )
    result: ResultResponse | None = Field(description="The image, after SUCCESS")
    error: ErrorResponse | None = Field(description="Why there is no image")
    predecessor_id: str | None = Field(description="The job before it in a chain")
    successor_id: str | None = Field(description="The job after it in a chain")
    retry_of: str | None = Field(description="The job that this one is another try of")
    chain: ChainState | None = Field(
        description="The state of the chain, read from both of its jobs; null without a chain"
    )
    extensions: list[ExtensionResponse] = Field(description="More processing time, as given")
    amendments: list[AmendmentResponse] = Field(description=AMENDMENTS_DESCRIPTION)
    transitions: list[TransitionResponse] = Field(description="The job's whole story, in order")
    allowed_events: list[JobEvent] = Field(
        description="What the state machine accepts now; `links` has what a client can ask for"
    )
    links: dict[str, str] = Field(description="`self`, and what can be fetched or done now")
