"""What a job's receivers are told of it: an event for each transition they asked for. Pure.

An event can be made again from the job's record at any time, and is then the same in every byte:
so a delivery can be repeated when nobody has the first one any more.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic import Field

from activities.callbacks.models import CallbackEvents
from activities.values import Model, UtcTime
from workflows.messages import ImageJobInput, JobType, JobView
from workflows.state_machine import JobEvent, JobState, Transition

ReceiverName = Literal["url", "endpoint"]


class Receiver(Model):
    """Who is told: the address that came with the job, or the tenant's endpoint (no `url`)."""

    name: ReceiverName
    events: CallbackEvents
    url: str | None = None

    def wants(self, transition: Transition) -> bool:
        """Whether it is told of this transition."""
        return self.events == "all" or transition.to_state.is_terminal


class Message(Model):
    """An event for one receiver. `id` is the same at every delivery, and for every receiver."""

    id: str
    job_id: str
    tenant: str
    sequence: int
    type: str
    receiver: ReceiverName
    url: str | None
    body: str

    @property
    def workflow_id(self) -> str:
        """The one workflow that delivers it."""
        return f"callback-{self.id}-{self.receiver}"


class CallbackTransition(Model):
    """What happened to the job."""

    sequence: int = Field(description="From 1, without gaps; deliveries can overtake each other")
    at: UtcTime = Field(description="When it happened")
    from_state: JobState = Field(description="The state before")
    to_state: JobState = Field(description="The state after")
    event: JobEvent = Field(description="What happened")
    source: str = Field(description="Who: `api:<tenant>`, `worker:<identity>`, `watchdog`, …")
    message: str = Field(description="Why, in words for a user")


class CallbackImage(Model):
    """The image: a link, and no bytes."""

    image_url: str = Field(description="Where it is; needs an API key where there are any")
    sha256: str = Field(description="Of the bytes, in hexadecimal")
    media_type: str = Field(examples=["image/png"], description="The image's format")
    width: int = Field(description="In pixels")
    height: int = Field(description="In pixels")
    byte_size: int = Field(description="The file's size")
    seed: int = Field(description="The seed that makes the same image again")


class CallbackError(Model):
    """Why there is no image."""

    kind: str = Field(examples=["WORKER_LOST"], description="One of the error kinds")
    message: str = Field(description="In words for a user")
    retryable: bool = Field(description="Whether the same request may succeed another time")


class CallbackJob(Model):
    """The job as it was right after the transition."""

    id: str = Field(description="The job's id")
    type: JobType = Field(description="What kind of work it is")
    state: JobState = Field(description="Where the job is")
    done: bool = Field(description="Whether the state is final")
    transition: CallbackTransition = Field(description="How it got there")
    result: CallbackImage | None = Field(description="The image, after SUCCESS")
    error: CallbackError | None = Field(description="Why there is none, after FAILED or a limit")
    labels: dict[str, str] = Field(description="Your own words")
    predecessor_id: str | None = Field(description="The job before it in a chain")
    successor_id: str | None = Field(description="The job after it in a chain")
    retry_of: str | None = Field(description="The job that this one is another try of")
    links: dict[str, str] = Field(description="`self`: where the job is")


class CallbackEvent(Model):
    """The body of a callback: JSON, after Standard Webhooks."""

    type: str = Field(
        description="`job.` and the state in lower case", examples=["job.success", "job.failed"]
    )
    timestamp: UtcTime = Field(description="When it happened, not when it was sent")
    data: CallbackJob = Field(description="The job")


def receivers(request: ImageJobInput | None) -> tuple[Receiver, ...]:
    """Who is to be told of a job."""
    if request is None:
        return ()
    told = []
    if request.callback_url:
        told.append(Receiver(name="url", events=request.callback_events, url=request.callback_url))
    if request.endpoint_events:
        told.append(Receiver(name="endpoint", events=request.endpoint_events))
    return tuple(told)


def messages_of(view: JobView, transition: Transition) -> Iterator[Message]:
    """What a transition gives to be told, a message for each receiver that wants it."""
    for receiver in receivers(view.request):
        if receiver.wants(transition):
            yield _message(view, transition, receiver)


def all_messages(view: JobView) -> list[Message]:
    """Everything that a job's receivers are to be told so far, in order."""
    return [message for t in view.transitions for message in messages_of(view, t)]


def delivery_prefix(job_id: str) -> str:
    """How the ids of the workflows begin that deliver a job's messages.

    No other job's begin so: no job's id has a dot.
    """
    return f"callback-{job_id}."


def _message(view: JobView, transition: Transition, receiver: Receiver) -> Message:
    event = _event(view, transition)
    return Message(
        # With its state: a run that an operator resets may come to another end.
        id=f"{view.id}.{_run(view.request)}{transition.sequence}-{transition.to_state.lower()}",
        job_id=view.id,
        tenant=view.tenant,
        sequence=transition.sequence,
        type=event.type,
        receiver=receiver.name,
        url=receiver.url,
        body=event.model_dump_json(),
    )


def _run(request: ImageJobInput | None) -> str:
    """A removal that failed is run again under its id: what sets the runs apart was asked anew."""
    asked_at = request.removal.asked_at if request and request.removal else None
    return f"{_milliseconds(asked_at)}." if asked_at else ""


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _event(view: JobView, transition: Transition) -> CallbackEvent:
    request, state, error = view.request, transition.to_state, view.status.error
    return CallbackEvent(
        type=f"job.{state.lower()}",
        timestamp=transition.at,
        data=CallbackJob(
            id=view.id,
            type=request.type if request else "TEXT_TO_IMAGE",
            state=state,
            done=state.is_terminal,
            transition=CallbackTransition(**dict(transition)),
            result=_image(view) if state is JobState.SUCCESS else None,
            error=CallbackError(**dict(error)) if error and state.is_terminal else None,
            labels=request.labels if request else {},
            predecessor_id=request.predecessor_id if request else None,
            successor_id=view.status.successor_id if state is JobState.SUCCESS else None,
            retry_of=request.retry_of if request else None,
            links={"self": _address(view)},
        ),
    )


def _image(view: JobView) -> CallbackImage | None:
    result = view.status.result
    if result is None:
        return None
    artifact = result.artifact.model_dump(exclude={"key"})
    return CallbackImage(image_url=f"{_address(view)}/image", seed=result.seed, **artifact)


def _address(view: JobView) -> str:
    return f"{view.request.links_base if view.request else ''}/v1/jobs/{view.id}"
