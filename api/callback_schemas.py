"""What clients send and get about callbacks."""

from pydantic import BaseModel, ConfigDict, Field

from activities.callbacks.models import MAX_URL_LENGTH, CallbackEvents, CallbackOutcome
from api.fields import Text, UtcTime
from workflows.callbacks import ReceiverName
from workflows.delivery import DeliveryState


class CallbackAttemptResponse(BaseModel):
    """One attempt to deliver."""

    at: UtcTime = Field(description="When it began")
    outcome: CallbackOutcome = Field(
        description="`gone`: the receiver answered 410, or there is no endpoint any more"
    )
    status_code: int | None = Field(description="The receiver's answer; null if none came")
    message: str = Field(description="Why it failed, in words")
    duration_seconds: float = Field(description="How long it took")


class CallbackResponse(BaseModel):
    """One message for one receiver."""

    id: str = Field(description="The same at every attempt: the header `webhook-id`")
    type: str = Field(examples=["job.success"], description="What it tells")
    sequence: int = Field(description="Of the transition that it tells of")
    receiver: ReceiverName = Field(
        description="`url`: the job's `callback_url`; `endpoint`: the tenant's endpoint"
    )
    url: str | None = Field(description="Where it goes; null for the tenant's endpoint")
    state: DeliveryState | None = Field(
        description="PENDING until it is delivered; FAILED after three days; STOPPED if the "
        "receiver wants nothing more. Null where nothing is known: it is about to begin, or over "
        "for longer than Temporal remembers"
    )
    next_attempt_at: UtcTime | None = Field(description="When it is tried next")
    attempts: list[CallbackAttemptResponse] = Field(description="All of them, in order")


class CallbackListResponse(BaseModel):
    """All callbacks of a job so far."""

    callbacks: list[CallbackResponse] = Field(description="In the order of what they tell of")


class CallbackSecretResponse(BaseModel):
    """What the callbacks of this tenant are signed with."""

    secret: str = Field(
        examples=["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"],
        description="For any library of Standard Webhooks",
    )


class SetCallbackEndpointRequest(BaseModel):
    """Where the tenant wants to be told of all its jobs."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"url": "https://example.com/darkroom"}]},
    )

    url: Text = Field(
        min_length=1, max_length=MAX_URL_LENGTH, description="An address like a job's own"
    )
    events: CallbackEvents = Field(
        default="final", description="Final states only, or every transition"
    )


class CallbackEndpointResponse(BaseModel):
    """Where the tenant is told of all its jobs."""

    url: str = Field(description="The address")
    events: CallbackEvents = Field(description="What it is told")
