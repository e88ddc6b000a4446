"""What a run that ended without its code reads as: Temporal's status is the truth, not the memo."""

from datetime import UTC, datetime

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHistoryEventFilterType,
)

from activities.errors import ErrorKind
from workflows.messages import JobError, JobView, with_status
from workflows.names import OPERATOR, WATCHDOG
from workflows.state_machine import JobEvent, JobState, Transition


def as_it_ended(view: JobView, execution: WorkflowExecution, reason: str) -> JobView:
    """The view as the end of its run makes it; as it is, if that ended with it or still runs.

    `reason` completes "terminated by an operator".
    """
    if view.state is JobState.SUCCESS and view.status.progress:
        done = view.status.progress.model_copy(update={"percent": 100})
        return with_status(view, progress=done)
    if view.state.is_terminal or execution.status is WorkflowExecutionStatus.RUNNING:
        return view
    return _as_ended(view, execution, reason)


def was_terminated(view: JobView, execution: WorkflowExecution) -> bool:
    """Whether an operator ended the job; only the history of its run says why."""
    return not view.state.is_terminal and execution.status is WorkflowExecutionStatus.TERMINATED


async def termination_reason(client: Client, execution: WorkflowExecution) -> str:
    """What the operator said, for `as_it_ended`."""
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    events = handle.fetch_history_events(
        event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
    )
    reason = ""
    async for event in events:
        reason = event.workflow_execution_terminated_event_attributes.reason
    return f": {reason or 'no reason was given'}"


def _as_ended(view: JobView, execution: WorkflowExecution, reason: str) -> JobView:
    at = execution.close_time or datetime.now(UTC)
    if execution.status is WorkflowExecutionStatus.TIMED_OUT:
        message = "the job outlived every limit while no workflow worker decided about it"
        ended = _ended(view, JobEvent.TIMEOUT, WATCHDOG, message, at)
        return _with_error(ended, ErrorKind.TIMEOUT, message, at)
    if execution.status is WorkflowExecutionStatus.TERMINATED:
        message = f"terminated by an operator{reason}"
        ended = _ended(view, JobEvent.FAIL, OPERATOR, message, at)
        return _with_error(ended, ErrorKind.TERMINATED, message, at)
    message = "the workflow ended without a final state"
    ended = _ended(view, JobEvent.FAIL, WATCHDOG, message, at)
    return _with_error(ended, ErrorKind.INTERNAL, message, at)


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
