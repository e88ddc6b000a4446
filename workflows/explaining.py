"""Why a job isn't running, in words, and what was asked of it that nobody has heard yet."""

from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription

from workflows.messages import (
    SIGNAL_CANCEL,
    SIGNAL_PAUSE,
    SIGNAL_RESUME,
    JobView,
    PendingRequest,
    generate_task_queue,
    with_status,
    workflow_id_for,
)
from workflows.presence import Presence
from workflows.state_machine import JobState
from workflows.submission import priority_key

# A workflow task is taken within milliseconds where there is a worker.
_TASK_OVERDUE = timedelta(seconds=1)


class Explainer:
    """Looks at who is there to decide and to work."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._presence = Presence(client)

    async def explain(
        self,
        view: JobView,
        description: WorkflowExecutionDescription,
        attempt: PendingActivityInfo | None,
    ) -> JobView:
        """Say in words why the job isn't running, if it isn't."""
        reasons: list[str] = []
        if description.raw_description.HasField("pending_workflow_task"):
            presence = await self._presence.of_workflows(description.task_queue)
            if not presence.is_served:
                reasons.append("no worker decides what happens next: workflow workers are down")
            # A worker that has just left still counts as present; a task that waits tells earlier.
            if not presence.is_served or _is_task_overdue(description):
                wish = await self._unheard_wish(view)
                view = with_status(view, pending_request=wish or view.status.pending_request)
        if view.state is JobState.PENDING:
            reasons.append(await self._why_pending(view, attempt))
        elif view.state is JobState.PAUSED:
            reasons.append("paused until it is resumed")
        elif attempt is None and not reasons:
            reasons.append("waiting for a workflow worker")
        return view.model_copy(update={"waiting_for": "; ".join(filter(None, reasons)) or None})

    async def _why_pending(self, view: JobView, attempt: PendingActivityInfo | None) -> str:
        request, now = view.request, datetime.now(UTC)
        if request is None:
            return "waiting for a workflow worker"
        startable_at = view.status.startable_at or request.start_at
        if startable_at and startable_at > now:
            if not view.transitions:
                return f"starts at {startable_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            return f"next attempt in {(startable_at - now).total_seconds():.0f} s"
        if attempt and attempt.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED:
            return "held by an operator with `temporal activity pause`; `unpause` lets it go on"
        presence = await self._presence.of_activities(generate_task_queue(request.engine))
        if not presence.is_served:
            return f"no worker serves the engine {request.engine}"
        # The job itself is in the backlog once its attempt is scheduled.
        ahead = max(0, presence.ahead_of(priority_key(request.priority)) - 1)
        return f"a free worker; about {ahead} jobs ahead" if ahead else "a free worker"

    async def _unheard_wish(self, view: JobView) -> PendingRequest | None:
        """What the signals that no workflow worker has seen yet come to."""
        wish: PendingRequest | None = None
        async for event in self._client.get_workflow_handle(
            workflow_id_for(view.id)
        ).fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                wish = None
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
                wish = "cancel"
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                name = event.workflow_execution_signaled_event_attributes.signal_name
                wish = _joined(wish, name)
        # Whatever would change nothing is refused once it is heard.
        is_moot = {"pause": view.state is JobState.PAUSED, "resume": view.state is JobState.PENDING}
        return None if wish and is_moot.get(wish) else wish


def _joined(wish: PendingRequest | None, signal: str) -> PendingRequest | None:
    """What a further signal makes of an unheard wish: cancel stays, pause and resume undo each
    other."""
    if wish == "cancel" or signal == SIGNAL_CANCEL:
        return "cancel"
    if signal == SIGNAL_PAUSE:
        return None if wish == "resume" else "pause"
    if signal == SIGNAL_RESUME:
        return None if wish == "pause" else "resume"
    return wish


def _is_task_overdue(description: WorkflowExecutionDescription) -> bool:
    task = description.raw_description.pending_workflow_task
    waited = datetime.now(UTC) - task.scheduled_time.ToDatetime(tzinfo=UTC)
    return waited > _TASK_OVERDUE
