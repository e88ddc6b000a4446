"""The archiver: a Temporal Schedule whose runs visit the jobs that were closed since the last."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from temporalio import workflow
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from activities.archive import (
        ArchiveActivities,
        ArchiveInput,
        ArchiveResult,
        ClosedRun,
        FinalJob,
    )
    from workflows.deliveries import Deliveries
    from workflows.messages import JobView
    from workflows.names import IMAGE_JOB_WORKFLOW, WORKFLOW_TASK_QUEUE, job_id_of
    from workflows.options import (
        ARCHIVE_HEARTBEAT_TIMEOUT,
        ARCHIVE_RETRY,
        ARCHIVE_TIMEOUT,
    )
    from workflows.reading import JobNotFoundError, JobReader

SCHEDULE_ID = "darkroom-archiver"
ARCHIVE_WORKFLOW = "ArchiveJobsWorkflow"


@workflow.defn(name=ARCHIVE_WORKFLOW)
class ArchiveJobsWorkflow:
    """One visit. It begins where the last one that succeeded ended, however long ago that was."""

    @workflow.run
    async def run(self) -> ArchiveResult:
        """Archive what was closed since the last visit."""
        last = (
            workflow.get_last_completion_result(ArchiveResult)
            if workflow.has_last_completion_result()
            else None
        )
        return await workflow.execute_activity_method(
            ArchiveActivities.archive_closed_jobs,
            ArchiveInput(since=last.until, failed=last.failed)
            if last
            else ArchiveInput(since=None),
            start_to_close_timeout=ARCHIVE_TIMEOUT,
            heartbeat_timeout=ARCHIVE_HEARTBEAT_TIMEOUT,
            retry_policy=ARCHIVE_RETRY,
        )


class VisibleClosedJobs:
    """Closed jobs as visibility lists them, and as `JobReader` reads them."""

    def __init__(self, client: Client, *, task_queue: str = WORKFLOW_TASK_QUEUE) -> None:
        self._client = client
        self._reader = JobReader(client)
        self._deliveries = Deliveries(client, task_queue=task_queue)

    async def closed_between(self, since: datetime, until: datetime) -> AsyncIterator[ClosedRun]:
        """See `ClosedJobs.closed_between`."""
        query = (
            f'WorkflowType="{IMAGE_JOB_WORKFLOW}" AND ExecutionStatus!="Running"'
            f' AND CloseTime BETWEEN "{_rfc3339(since)}" AND "{_rfc3339(until)}"'
        )
        async for row in self._client.list_workflows(query):
            if job_id := job_id_of(row.id):
                yield ClosedRun(job_id=job_id, run_id=row.run_id)

    async def final_job(self, job_id: str) -> FinalJob | None:
        """See `ClosedJobs.final_job`."""
        try:
            view = await self._reader.read(job_id)
        except (JobNotFoundError, ValidationError):
            # Deleted meanwhile, or written by a build whose words this one doesn't know.
            return None
        if not view.state.is_terminal or view.is_running:
            return None
        result = view.status.result
        return FinalJob(
            run_id=view.run_id,
            keep=result.keys if result else (),
            view=view.model_dump_json(),
        )

    async def make_up_for(self, job: FinalJob) -> None:
        """See `ClosedJobs.make_up_for`."""
        await self._deliveries.make_up_for(JobView.model_validate_json(job.view))


async def ensure_archiver(
    client: Client,
    interval: timedelta,
    *,
    task_queue: str = WORKFLOW_TASK_QUEUE,
    schedule_id: str = SCHEDULE_ID,
) -> None:
    """Set the schedule up, or to another interval; safe to call at every start."""
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            ARCHIVE_WORKFLOW, id=f"{schedule_id}-visit", task_queue=task_queue
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)]),
        # One visit at a time; one that was missed is made up for by the next.
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=1)
        ),
    )

    async def update(input: ScheduleUpdateInput) -> ScheduleUpdate | None:
        same = input.description.schedule.spec.intervals == schedule.spec.intervals
        return None if same else ScheduleUpdate(schedule)

    try:
        await client.create_schedule(schedule_id, schedule)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(schedule_id).update(update)


def _rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
