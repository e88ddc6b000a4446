"""Why a job isn't running, in words, and what was asked of it that nobody has heard yet."""

from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription

from workflows.hearing import Asked, asked_in_all
from workflows.messages import JobView, with_status, workflow_id_for
from workflows.presence import Presence
from workflows.starting import priority_key
from workflows.state_machine import JobState
from workflows.times import in_utc
from workflows.work import work_route

# A signal is heard within milliseconds where there is a worker.
_WISH_OVERDUE = timedelta(seconds=1)


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
            # A worker that has just left still counts as present; a wish that waits tells earlier.
            before = datetime.now(UTC) - _WISH_OVERDUE if presence.is_served else None
            asked = await self.asked(view, before)
            view = with_status(view, pending_request=asked.pending_request)
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
        told = view.status.startable_at or request.start_at
        startable_at = in_utc(told) if told else None
        if startable_at and startable_at > now:
            if not view.transitions:
                return f"starts at {startable_at:%Y-%m-%dT%H:%M:%SZ}"
            return f"next attempt in {(startable_at - now).total_seconds():.0f} s"
        if attempt and attempt.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED:
            return "held by an operator with `temporal activity pause`; `unpause` lets it go on"
        route = work_route(request)
        presence = await self._presence.of_activities(route.task_queue)
        if not presence.is_served:
            return f"no worker {route.purpose}"
        # The job itself is in the backlog once its attempt is scheduled.
        ahead = max(0, presence.ahead_of(priority_key(view.priority)) - 1)
        return f"a free worker; about {ahead} jobs ahead" if ahead else "a free worker"

    async def asked(self, view: JobView, before: datetime | None = None) -> Asked:
        """What was asked of the job, heard or not, at all or before a time."""
        handle = self._client.get_workflow_handle(workflow_id_for(view.id))
        return await asked_in_all(view, handle.fetch_history_events(), before)

    async def is_decided(self, task_queue: str) -> bool:
        """Whether a workflow worker is there; looks anew."""
        return (await self._presence.of_workflows(task_queue, is_fresh=True)).is_served
