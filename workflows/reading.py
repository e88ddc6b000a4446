"""Reading a job from outside, whether or not any worker is alive."""

import asyncio
from datetime import timedelta

from temporalio.api.enums.v1 import EventType
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.archive import read_archived
from activities.artifacts import ArtifactStore
from activities.models import AttemptHeartbeat, Progress, WorkResult
from workflows.ended_runs import as_ended
from workflows.explaining import Explainer
from workflows.job_record import JobRecord, record_from_memo
from workflows.messages import (
    IMAGE_JOB_WORKFLOW,
    JobView,
    attempt_activity_id,
    with_status,
    workflow_id_for,
)
from workflows.state_machine import JobState


class JobNotFoundError(Exception):
    """There is no such job."""


class JobReader:
    """Tells of any job: state, reason, progress, and what it waits for.

    With a store it also tells of the jobs that Temporal has forgotten, from their archive.
    """

    def __init__(self, client: Client, store: ArtifactStore | None = None) -> None:
        self._client = client
        self._store = store
        self._explainer = Explainer(client)

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
            return with_status(view, progress=done)
        if view.state.is_terminal:
            return view
        if description.status is not WorkflowExecutionStatus.RUNNING:
            return await as_ended(self._client, view, description)
        attempt = _pending_attempt(view, description)
        is_between = attempt is None and view.state is JobState.PROCESSING
        if progress := await (
            self._final_progress(view.id) if is_between else self._progress(attempt)
        ):
            view = with_status(view, progress=progress)
        return await self._explainer.explain(view, description, attempt)

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


def _pending_attempt(
    view: JobView, description: WorkflowExecutionDescription
) -> PendingActivityInfo | None:
    """The activity of the newest attempt, while it runs or waits."""
    attempts = {p.activity_id: p for p in description.raw_description.pending_activities}
    newest = attempts.get(attempt_activity_id(view.status.dispatch))
    following = attempts.get(attempt_activity_id(view.status.dispatch + 1))
    return following or newest
