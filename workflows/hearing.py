"""What was asked of a job: the wishes that its record shows, and the signals nobody has heard."""

from collections.abc import AsyncIterator, Iterable
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio.api.enums.v1 import EventType, PendingWorkflowTaskState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionDescription
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter

from workflows.amending import AmendNote, amend_note
from workflows.messages import JobView, PendingRequest
from workflows.names import SIGNAL_AMEND, SIGNAL_CANCEL, SIGNAL_PAUSE, SIGNAL_RESUME
from workflows.notes import NOTHING_SENT, ControlNote
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

    def after_unheard(self, unheard: "Unheard") -> "Asked":
        """What it comes to once a signal is heard."""
        if unheard.signal != SIGNAL_AMEND:
            return self.after(unheard.signal)
        if unheard.amendment is None:
            return self
        told = (*self.wishes.amendments, unheard.amendment)
        return replace(self, wishes=replace(self.wishes, amendments=told))


def asked_on_record(view: JobView) -> Asked:
    """What the job's workflow has heard. A pause is on record from when it tells the attempt."""
    is_stopping = view.status.pending_request == "pause"
    pause = ControlNote() if is_stopping else None
    return Asked(view.state, Wishes(pause=pause, stopping=is_stopping))


@dataclass(frozen=True)
class Unheard:
    """A signal that waits in a job's history for a workflow task to handle it."""

    signal: str
    at: datetime
    amendment: AmendNote | None = None


async def unheard_signals(events: AsyncIterator[HistoryEvent]) -> tuple[Unheard, ...]:
    """The signals after the last workflow task of a history, in order."""
    unheard: tuple[Unheard, ...] = ()
    async for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            unheard = ()
        elif signal := _signal_of(event):
            at = event.event_time.ToDatetime(tzinfo=UTC)
            amendment = _amendment_of(event) if signal == SIGNAL_AMEND else None
            unheard += (Unheard(signal, at, amendment),)
    return unheard


def asked_in_all(
    view: JobView, unheard: Iterable[Unheard], before: datetime | None = None
) -> Asked:
    """What the job was asked, with the signals that no task has handled yet.

    With `before` the signals count that have been waiting since then.
    """
    asked = asked_on_record(view)
    for one in unheard:
        if before is None or one.at < before:
            asked = asked.after_unheard(one)
    return asked


def is_in_flight(description: WorkflowExecutionDescription) -> bool:
    """Whether a workflow task is at work."""
    task = description.raw_description.pending_workflow_task
    return task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED


def _signal_of(event: HistoryEvent) -> str | None:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
        return SIGNAL_CANCEL
    return event.workflow_execution_signaled_event_attributes.signal_name or None


def _amendment_of(event: HistoryEvent) -> AmendNote | None:
    """What is to be different; None for what the workflow will refuse."""
    sent = event.workflow_execution_signaled_event_attributes.input.payloads
    told = RawValue(sent[0]) if sent else NOTHING_SENT
    note = amend_note(told, pydantic_data_converter.payload_converter)
    return note if isinstance(note, AmendNote) else None


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
