"""Reading a job from outside, whether or not any worker is alive."""

import asyncio
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowHistoryEventFilterType,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.archive import read_archived
from activities.artifacts import ArtifactStore
from activities.errors import ErrorKind
from activities.models import AttemptHeartbeat, Progress, WorkResult
from workflows.job_record import JobRecord, record_from_memo
from workflows.messages import (
    IMAGE_JOB_WORKFLOW,
    OPERATOR,
    SIGNAL_CANCEL,
    SIGNAL_PAUSE,
    SIGNAL_RESUME,
    WATCHDOG,
    JobError,
    JobView,
    PendingRequest,
    attempt_activity_id,
    generate_task_queue,
    workflow_id_for,
)
from workflows.presence import Presence
from workflows.state_machine import JobEvent, JobState, Transition
from workflows.submission import priority_key

# A workflow task is taken within milliseconds where there is a worker.
_TASK_OVERDUE = timedelta(seconds=1)


class JobNotFoundError(Exception):
    """There is no such job."""


class JobReader:
    """Tells of any job: state, reason, progress, and what it waits for.

    With a store it also tells of the jobs that Temporal has forgotten, from their archive.
    """

    def __init__(self, client: Client, store: ArtifactStore | None = None) -> None:
        self._client = client
        self._store = store
        self._presence = Presence(client)

    def handle(self, job_id: str) -> WorkflowHandle[object, object]:
        """The job's workflow."""
        return self._client.get_workflow_handle(workflow_id_for(job_id))

    async def read(self, job_id: str) -> JobView:
        """The job as it is now, or `JobNotFoundError`."""
        try:
            return (await self._read(job_id))[0]
        except JobNotFoundError:
            archived = await read_archived(self._store, job_id) if self._store else None
            if archived is None:
                raise
            return JobView.model_validate_json(archived.view)

    async def read_after_change(self, job_id: str, known: JobView, limit: timedelta) -> JobView:
        """The job once its state is no longer the known one, or after `limit`."""
        view = known
        try:
            async with asyncio.timeout(limit.total_seconds()):
                while view.moment == known.moment and not view.state.is_terminal:
                    view, seen_events = await self._read(job_id)
                    if view.moment == known.moment:
                        await self._wait_for_event(job_id, seen_events)
        except TimeoutError:
            return await self.read(job_id)
        return view

    async def _read(self, job_id: str) -> tuple[JobView, int]:
        try:
            description = await self.handle(job_id).describe()
        except RPCError as error:
            if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                raise JobNotFoundError(job_id) from error
            raise
        if description.workflow_type != IMAGE_JOB_WORKFLOW:
            raise JobNotFoundError(job_id)
        record = record_from_memo(job_id, description.start_time, await description.memo())
        view = await self._complete(record, description)
        run = {
            "run_id": description.run_id,
            "is_running": description.status is WorkflowExecutionStatus.RUNNING,
        }
        return view.model_copy(update=run), description.history_length

    async def _wait_for_event(self, job_id: str, seen_events: int) -> None:
        """Return at the first event after those that were seen; a closed run has no more."""
        events = self.handle(job_id).fetch_history_events(wait_new_event=True)
        async for event in events:
            if event.event_id > seen_events:
                return

    async def _complete(
        self, record: JobRecord, description: WorkflowExecutionDescription
    ) -> JobView:
        view = record.view()
        if view.state is JobState.SUCCESS and view.status.progress:
            done = view.status.progress.model_copy(update={"percent": 100})
            return _with_status(view, progress=done)
        if view.state.is_terminal:
            return view
        if description.status is not WorkflowExecutionStatus.RUNNING:
            return await self._override(view, description)
        attempt = _pending_attempt(view, description)
        is_between = attempt is None and view.state is JobState.PROCESSING
        if progress := await (
            self._final_progress(view.id) if is_between else self._progress(attempt)
        ):
            view = _with_status(view, progress=progress)
        return await self._explain(view, description, attempt)

    async def _override(self, view: JobView, description: WorkflowExecutionDescription) -> JobView:
        """No code ran at the end of this run: Temporal's status is the truth, not the memo."""
        at = description.close_time or datetime.now(UTC)
        if description.status is WorkflowExecutionStatus.TIMED_OUT:
            message = "the job outlived every limit while no workflow worker decided about it"
            ended = _ended(view, JobEvent.TIMEOUT, WATCHDOG, message, at)
            return _with_error(ended, ErrorKind.TIMEOUT, message, at)
        if description.status is WorkflowExecutionStatus.TERMINATED:
            reason = await self._termination_reason(description)
            message = f"terminated by an operator: {reason or 'no reason was given'}"
            ended = _ended(view, JobEvent.FAIL, OPERATOR, message, at)
            return _with_error(ended, ErrorKind.TERMINATED, message, at)
        message = "the workflow ended without a final state"
        ended = _ended(view, JobEvent.FAIL, WATCHDOG, message, at)
        return _with_error(ended, ErrorKind.INTERNAL, message, at)

    async def _termination_reason(self, description: WorkflowExecutionDescription) -> str:
        handle = self._client.get_workflow_handle(description.id, run_id=description.run_id)
        events = handle.fetch_history_events(
            event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        )
        async for event in events:
            return event.workflow_execution_terminated_event_attributes.reason
        return ""

    async def _progress(self, attempt: PendingActivityInfo | None) -> Progress | None:
        if attempt is None or not attempt.HasField("heartbeat_details"):
            return None
        try:
            [heartbeat] = await self._client.data_converter.decode(
                list(attempt.heartbeat_details.payloads), [AttemptHeartbeat]
            )
        except ValueError:
            # Written by a worker of another build: the job is readable without it.
            return None
        progress: Progress = heartbeat.progress
        return progress

    async def _final_progress(self, job_id: str) -> Progress | None:
        """How far an attempt got that has ended, while its workflow has yet to record it."""
        progress: Progress | None = None
        async for event in self.handle(job_id).fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                payloads = event.activity_task_completed_event_attributes.result.payloads
                [result] = await self._client.data_converter.decode(list(payloads), [WorkResult])
                progress = result.progress
        return progress

    async def _explain(
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
                view = _with_status(view, pending_request=wish or view.status.pending_request)
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
        async for event in self.handle(view.id).fetch_history_events():
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


def _pending_attempt(
    view: JobView, description: WorkflowExecutionDescription
) -> PendingActivityInfo | None:
    """The activity of the newest attempt, while it runs or waits."""
    attempts = {p.activity_id: p for p in description.raw_description.pending_activities}
    newest = attempts.get(attempt_activity_id(view.status.dispatch))
    following = attempts.get(attempt_activity_id(view.status.dispatch + 1))
    return following or newest


def _with_status(view: JobView, **changes: object) -> JobView:
    return view.model_copy(update={"status": view.status.model_copy(update=changes)})


def _ended(view: JobView, event: JobEvent, source: str, message: str, at: datetime) -> JobView:
    """Tell the end of a run in the same words as any other transition."""
    state = JobState.TIMEOUT_CANCELLED if event is JobEvent.TIMEOUT else JobState.FAILED
    end = Transition(
        sequence=len(view.transitions) + 1,
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
    return _with_status(
        view,
        error=JobError(kind=kind, message=message, retryable=True),
        finished_at=at,
        deadline_at=None,
        pending_request=None,
    )
