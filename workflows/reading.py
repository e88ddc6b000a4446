"""Reading a job from outside, whether or not any worker is alive."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from pydantic import ValidationError
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
from workflows.decoding import decoded
from workflows.ended_runs import as_it_ended, termination_reason, was_terminated
from workflows.explaining import Explainer
from workflows.hearing import Standing, asked_on_record, is_in_flight
from workflows.messages import JobView, with_status
from workflows.names import IMAGE_JOB_WORKFLOW, attempt_activity_id, workflow_id_for
from workflows.presence import Presence
from workflows.recalling import Lost, recall, recall_what_is_left, with_gaps
from workflows.state_machine import JobState

# A living worker is done with a workflow task within milliseconds.
_SETTLE_SECONDS = 1.0
_LOOK_AGAIN_SECONDS = 0.02


class JobNotFoundError(Exception):
    """There is no such job."""


class JobReader:
    """Tells of any job: state, reason, progress, and what it waits for.

    With a store it also tells of the jobs that Temporal has forgotten, from their archive. It tells
    what it can of a job whose record is damaged if `in_part`, and else raises: whoever acts on what
    is missing must not take a part for the whole.
    """

    def __init__(
        self,
        client: Client,
        store: ArtifactStore | None = None,
        *,
        in_part: bool = False,
        presence: Presence | None = None,
    ) -> None:
        self._client = client
        self._store = store
        self._in_part = in_part
        self._explainer = Explainer(client, presence)

    def handle(self, job_id: str) -> WorkflowHandle[object, object]:
        """The job's workflow."""
        return self._client.get_workflow_handle(workflow_id_for(job_id))

    async def read(self, job_id: str) -> JobView:
        """The job as it is now, or `JobNotFoundError`."""
        try:
            return (await self._read(job_id))[0]
        except JobNotFoundError:
            archived = await self.read_archived(job_id)
            if archived is None:
                raise
            return archived

    async def read_standing(self, job_id: str) -> Standing:
        """The job, and what it was asked up to now, heard or not; or `JobNotFoundError`."""
        try:
            with _missing(job_id):
                return await self._standing(job_id, await self._describe_settled(job_id))
        except JobNotFoundError:
            archived = await self.read_archived(job_id)
            if archived is None:
                raise
            return Standing(archived, asked_on_record(archived))

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

    async def read_archived(self, job_id: str) -> JobView | None:
        """What the archive knows of a job, if anything."""
        archived = await read_archived(self._store, job_id) if self._store else None
        try:
            return JobView.model_validate_json(archived.view) if archived else None
        except ValidationError:
            return None

    async def _read(self, job_id: str) -> tuple[JobView, int]:
        with _missing(job_id):
            description = await self._describe(job_id)
            return await self._view(job_id, description), description.history_length

    async def _describe(self, job_id: str) -> WorkflowExecutionDescription:
        description = await self.handle(job_id).describe()
        if description.workflow_type != IMAGE_JOB_WORKFLOW:
            raise JobNotFoundError(job_id)
        return description

    async def _describe_settled(self, job_id: str) -> WorkflowExecutionDescription:
        """The job while no workflow task is at work: only a frozen worker keeps one for long."""
        end = time.monotonic() + _SETTLE_SECONDS
        description = await self._describe(job_id)
        while is_in_flight(description) and time.monotonic() < end:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            description = await self._describe(job_id)
        return description

    async def _view(self, job_id: str, description: WorkflowExecutionDescription) -> JobView:
        return await self._complete(*await self._recall(job_id, description), description)

    async def _recall(
        self, job_id: str, description: WorkflowExecutionDescription
    ) -> tuple[JobView, Lost]:
        if self._in_part:
            converter = self._client.data_converter
            return await recall_what_is_left(job_id, description, converter)
        return await recall(job_id, description), ()

    async def _standing(self, job_id: str, description: WorkflowExecutionDescription) -> Standing:
        record, lost = await self._recall(job_id, description)
        view = await self._complete(record, lost, description)
        asked = asked_on_record(record)
        if not view.is_running or view.state.is_terminal:
            return Standing(view, asked)
        if description.raw_description.HasField("pending_workflow_task"):
            asked = await self._explainer.asked(record)
        return Standing(
            with_status(view, pending_request=asked.pending_request),
            asked,
            is_in_flight=is_in_flight(description),
            is_decided=await self._explainer.is_decided(description.task_queue),
        )

    async def _wait_for_event(self, job_id: str, seen_events: int) -> None:
        """Return at the first event after those that were seen; a closed run has no more."""
        with _missing(job_id):
            events = self.handle(job_id).fetch_history_events(wait_new_event=True)
            async for event in events:
                if event.event_id > seen_events:
                    return

    async def _complete(
        self, record: JobView, lost: Lost, description: WorkflowExecutionDescription
    ) -> JobView:
        view = with_gaps(await self._live(record, description), lost)
        is_running = description.status is WorkflowExecutionStatus.RUNNING
        return view.model_copy(update={"run_id": description.run_id, "is_running": is_running})

    async def _live(self, view: JobView, description: WorkflowExecutionDescription) -> JobView:
        """The view with what only Temporal itself knows."""
        is_cut_short = was_terminated(view, description)
        reason = await termination_reason(self._client, description) if is_cut_short else ""
        view = as_it_ended(view, description, reason)
        if view.state.is_terminal:
            return view
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
        payloads = attempt.heartbeat_details.payloads
        heartbeat = await decoded(self._client.data_converter, payloads, AttemptHeartbeat)
        return heartbeat.progress if heartbeat else None

    async def _final_progress(self, job_id: str) -> Progress | None:
        """How far an attempt got that has ended, while its workflow has yet to record it."""
        progress: Progress | None = None
        async for event in self.handle(job_id).fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                payloads = event.activity_task_completed_event_attributes.result.payloads
                result = await decoded(self._client.data_converter, payloads, WorkResult)
                progress = result.progress if result else None
        return progress


@contextmanager
def _missing(job_id: str) -> Iterator[None]:
    """The job is not there, or has gone while it was looked at."""
    try:
        yield
    except RPCError as error:
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            raise JobNotFoundError(job_id) from error
        raise


def _pending_attempt(
    view: JobView, description: WorkflowExecutionDescription
) -> PendingActivityInfo | None:
    """The activity of the newest attempt, while it runs or waits."""
    attempts = {p.activity_id: p for p in description.raw_description.pending_activities}
    newest = attempts.get(attempt_activity_id(view.status.dispatch))
    following = attempts.get(attempt_activity_id(view.status.dispatch + 1))
    return following or newest
