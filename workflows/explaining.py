"""Why a job isn't running, in words, and what was asked of it that nobody has heard yet."""

from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError

from workflows.hearing import Asked, Unheard, asked_in_all, unheard_signals
from workflows.line import Line, Lines, Place, place_of
from workflows.messages import ImageJobInput, JobView, with_status
from workflows.names import workflow_id_for
from workflows.presence import Presence, QueuePresence
from workflows.remembering import RememberedEach
from workflows.state_machine import JobState
from workflows.times import in_utc
from workflows.work import work_route

# A signal is heard within milliseconds where there is a worker.
_WISH_OVERDUE = timedelta(seconds=1)
# The start and the first workflow task: no signal can be among them.
_EVENTS_OF_THE_START = 2
# A part of a history never changes; each answer is some hundred bytes.
_FOR_LONG = timedelta(hours=1).total_seconds()
_MOST_HISTORIES = 10_000

_NOBODY_DECIDES = "no worker decides what happens next: workflow workers are down"


class Explainer:
    """Looks at who is there to decide and to work, once for all who read jobs meanwhile."""

    def __init__(self, client: Client, presence: Presence | None = None) -> None:
        self._client = client
        self._presence = presence or Presence(client)
        self._lines = Lines(client)
        self._unheard = RememberedEach(self._read_unheard, _FOR_LONG, most=_MOST_HISTORIES)

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
                reasons.append(_NOBODY_DECIDES)
            # A worker that has just left still counts as present; a wish that waits tells earlier.
            before = datetime.now(UTC) - _WISH_OVERDUE if presence.is_served else None
            asked = asked_in_all(view, await self._unheard_of(description), before)
            view = with_status(view, pending_request=asked.pending_request)
        if view.state is JobState.PENDING:
            why = await self._why_pending(view, description, attempt, is_decided=not reasons)
            reasons.append(why)
        elif view.state is JobState.PAUSED:
            reasons.append("paused until it is resumed")
        elif attempt is None and not reasons:
            reasons.append("waiting for a workflow worker")
        told = "; ".join(dict.fromkeys(filter(None, reasons)))
        return view.model_copy(update={"waiting_for": told or None})

    async def _why_pending(
        self,
        view: JobView,
        description: WorkflowExecutionDescription,
        attempt: PendingActivityInfo | None,
        *,
        is_decided: bool,
    ) -> str:
        request, startable_at = view.request, _startable_at(view)
        if request is None:
            return "waiting for a workflow worker"
        if startable_at and startable_at > datetime.now(UTC):
            return _told_start(view, startable_at)
        if attempt and attempt.state == PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED:
            return "held by an operator with `temporal activity pause`; `unpause` lets it go on"
        if attempt and attempt.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
            return await self._why_unclaimed(description, attempt)
        is_queued = attempt is not None or is_decided
        return await self._why_queued(view, request, description, startable_at, is_queued=is_queued)

    async def _why_queued(
        self,
        view: JobView,
        request: ImageJobInput,
        description: WorkflowExecutionDescription,
        startable_at: datetime | None,
        *,
        is_queued: bool,
    ) -> str:
        route = work_route(request)
        presence = await self._presence.of_activities(route.task_queue)
        if not presence.is_served:
            return f"no worker {route.purpose}"
        # It stands in no line until somebody has decided that.
        if not is_queued:
            return ""
        ahead = await self._told_ahead(request, place_of(view, description, startable_at), presence)
        return f"a free worker; {ahead}" if ahead else "a free worker"

    async def _why_unclaimed(
        self, description: WorkflowExecutionDescription, attempt: PendingActivityInfo
    ) -> str:
        """A worker has the job, and its workflow has yet to let it begin."""
        presence = await self._presence.of_workflows(description.task_queue)
        if not presence.is_served:
            return _NOBODY_DECIDES
        return f"the worker {attempt.last_worker_identity}, which has it, to begin"

    async def _told_ahead(
        self, request: ImageJobInput, place: Place, presence: QueuePresence
    ) -> str:
        """How many jobs come first: no more than wait now, as the line was lately."""
        # The job itself is in the backlog.
        most = max(0, presence.ahead_of(place.priority_key) - 1)
        if not most:
            return ""
        line = await self._line(request)
        if line is None:
            return f"at most {most} jobs ahead"
        ahead = min(most, line.ahead_of(place))
        return f"about {ahead} jobs ahead" if ahead else ""

    async def _line(self, request: ImageJobInput) -> Line | None:
        try:
            return await self._lines.of(request)
        # Without the rows of visibility the number of tasks is what is known.
        except (RPCError, TimeoutError):
            return None

    async def asked(self, view: JobView) -> Asked:
        """What was asked of the job up to now, heard or not."""
        handle = self._client.get_workflow_handle(workflow_id_for(view.id))
        return asked_in_all(view, await unheard_signals(handle.fetch_history_events()))

    async def _unheard_of(self, description: WorkflowExecutionDescription) -> tuple[Unheard, ...]:
        """However often a job is read while nobody decides, its history is read once."""
        length = description.history_length
        if length <= _EVENTS_OF_THE_START:
            return ()
        return await self._unheard.of((description.id, description.run_id, length)).get()

    async def _read_unheard(self, history: tuple[str, str | None, int]) -> tuple[Unheard, ...]:
        workflow_id, run_id, _ = history
        handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        return await unheard_signals(handle.fetch_history_events())

    async def is_decided(self, task_queue: str) -> bool:
        """Whether a workflow worker is there; looks anew."""
        return (await self._presence.of_workflows(task_queue, is_fresh=True)).is_served


def _startable_at(view: JobView) -> datetime | None:
    """When the next attempt may begin, if that is a time of its own."""
    told = view.status.startable_at or (view.request.start_at if view.request else None)
    return in_utc(told) if told else None


def _told_start(view: JobView, startable_at: datetime) -> str:
    if not view.transitions:
        return f"starts at {startable_at:%Y-%m-%dT%H:%M:%SZ}"
    # It may have come since.
    wait = max(startable_at - datetime.now(UTC), timedelta(0))
    return f"next attempt in {wait.total_seconds():.0f} s"
