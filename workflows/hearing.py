"""What was asked of a job: the wishes that its record shows, and the signals nobody has heard."""

from collections.abc import AsyncIterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError, RPCStatusCode

from workflows.messages import (
    SIGNAL_CANCEL,
    SIGNAL_PAUSE,
    SIGNAL_RESUME,
    ControlNote,
    JobView,
    PendingRequest,
)
from workflows.state_machine import JobState
from workflows.wishes import Wishes


@dataclass(frozen=True)
class Asked:
    """What a job in `state` will find that it was asked, by the rules of its workflow."""

    state: JobState
    wishes: Wishes
    newest_unheard: str | None = None

    @property
    def pending_request(self) -> PendingRequest | None:
        """What is left to be carried out."""
        if self.wishes.cancel:
            return "cancel"
        if self.wishes.resume:
            return "resume"
        return "pause" if self.wishes.pause else None

    def refuses(self, signal: str) -> bool:
        """Whether the signal would be refused once it is heard."""
        return _note(copy(self.wishes), signal, self.state) is not None

    def has(self, signal: str) -> bool:
        """Whether the signal, sent once more, could change nothing."""
        if self.wishes.stopping and not self.wishes.cancel:
            # A resume that was heard while the attempt stops is on no record.
            return signal == self.newest_unheard
        return self.after(signal).wishes == self.wishes

    def after(self, signal: str) -> "Asked":
        """What it comes to with one more signal."""
        wishes = copy(self.wishes)
        _note(wishes, signal, self.state)
        return Asked(self.state, wishes, signal)


def asked_on_record(view: JobView) -> Asked:
    """What the job's workflow has heard. A pause is on record from when it tells the attempt."""
    is_stopping = view.status.pending_request == "pause"
    pause = ControlNote() if is_stopping else None
    return Asked(view.state, Wishes(pause=pause, stopping=is_stopping))


async def asked_in_all(
    view: JobView, events: AsyncIterator[HistoryEvent], before: datetime | None = None
) -> Asked:
    """What the job was asked, with the signals in its history that no task has handled yet.

    With `before` the signals count that have been waiting since then.
    """
    heard = asked = asked_on_record(view)
    async for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            asked = heard
        elif before is None or event.event_time.ToDatetime(tzinfo=UTC) < before:
            signal = _signal_of(event)
            asked = asked.after(signal) if signal else asked
    return asked


def has_no_signals_left(error: RPCError) -> bool:
    """Whether Temporal refused a signal because its workflow had as many as one may have."""
    is_refusal = error.status is RPCStatusCode.INVALID_ARGUMENT
    return is_refusal and "limit for signal" in error.message


def _signal_of(event: HistoryEvent) -> str | None:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
        return SIGNAL_CANCEL
    return event.workflow_execution_signaled_event_attributes.signal_name or None


@dataclass(frozen=True)
class Standing:
    """A job just before it is asked for something.

    While a workflow task is at work (`is_in_flight`) the server keeps further signals back, and
    shows them to nobody. `is_decided`: whether a workflow worker is there to hear.
    """

    view: JobView
    asked: Asked
    is_in_flight: bool = False
    is_decided: bool = False


def _note(wishes: Wishes, signal: str, state: JobState) -> str | None:
    """Note a signal as the workflow does; returns why it is refused, if it is."""
    asks = {
        SIGNAL_CANCEL: wishes.ask_cancel,
        SIGNAL_PAUSE: wishes.ask_pause,
        SIGNAL_RESUME: wishes.ask_resume,
    }
    ask = asks.get(signal)
    return ask(ControlNote(), state) if ask else f"there is no signal {signal!r}"
