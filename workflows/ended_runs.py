"""What a run that ended without its code reads as: Temporal's status is the truth, not the memo."""

from datetime import UTC, datetime

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHistoryEventFilterType,
)

from activities.errors import ErrorKind
from workflows.messages import OPERATOR, WATCHDOG, JobError, JobView, with_status
from workflows.state_machine import JobEvent, JobState, Transition


async def as_ended(
    client: Client, view: JobView, description: WorkflowExecutionDescription
) -> JobView:
    """The view of a job whose run is closed, though its memo has no final state."""
    at = description.close_time or datetime.now(UTC)
    if description.status is WorkflowExecutionStatus.TIMED_OUT:
        message = "the job outlived every limit while no workflow worker decided about it"
        ended = _ended(view, JobEvent.TIMEOUT, WATCHDOG, message, at)
        return _with_error(ended, ErrorKind.TIMEOUT, message, at)
    if description.status is WorkflowExecutionStatus.TERMINATED:
        reason = await _termination_reason(client, description)
        message = f"terminated by an operator: {reason or 'no reason was given'}"
        ended = _ended(view, JobEvent.FAIL, OPERATOR, message, at)
        return _with_error(ended, ErrorKind.TERMINATED, message, at)
    message = "the workflow ended without a final state"
    ended = _ended(view, JobEvent.FAIL, WATCHDOG, message, at)
    return _with_error(ended, ErrorKind.INTERNAL, message, at)


async def _termination_reason(client: Client, description: WorkflowExecutionDescription) -> str:
    handle = client.get_workflow_handle(description.id, run_id=description.run_id)
    events = handle.fetch_history_events(
        event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
    )
    async for event in events:
        return event.workflow_execution_terminated_event_attributes.reason
    return ""


def _ended(view: JobView, event: JobEvent, source: str, message: str, at: datetime) -> JobView:
    """Tell the end of a run in the same words as any other transition."""
    state = JobState.TIMEOUT_CANCELLED if event is JobEvent.TIMEOUT else JobState.FAILED
    end = Transition(
        # Not the number of those before: one that can't be read is left out.
        sequence=view.transitions[-1].sequence + 1 if view.transitions else 1,
        at=at,
        from_state=view.state,
        to_state=state,
        event=event,
        source=source,
        message=message,
    )
    return view.model_copy(
        update={"state": state, "updated_at": at, "transitions": (*view.transitions, end)}
    )


def _with_error(view: JobView, kind: ErrorKind, message: str, at: datetime) -> JobView:
    return with_status(
        view,
        error=JobError(kind=kind, message=message, retryable=True),
        finished_at=at,
        deadline_at=None,
        pending_request=None,
    )
