"""Visits of the archiver for tests, which leave the jobs of other tests alone."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.archive import ArchiveActivities, ArchiveInput, ClosedRun, FinalJob
from activities.artifacts import LocalArtifactStore
from tests.workflows.stage import JobHandle, until
from workflows.archiving import VisibleClosedJobs
from workflows.names import WORKFLOW_TASK_QUEUE, job_id_of

AT_ONCE = timedelta(0)


class OnlyTheseJobs(VisibleClosedJobs):
    """Leaves the jobs of other tests, which share the server, alone."""

    def __init__(
        self, client: Client, handles: list[JobHandle], task_queue: str = WORKFLOW_TASK_QUEUE
    ) -> None:
        super().__init__(client, task_queue=task_queue)
        self._ids = {job_id_of(handle.id) for handle in handles}

    async def closed_between(self, since: datetime, until: datetime) -> AsyncIterator[ClosedRun]:
        async for run in super().closed_between(since, until):
            if run.job_id in self._ids:
                yield run


async def visit(
    client: Client,
    store: LocalArtifactStore,
    handles: list[JobHandle],
    settle: timedelta = AT_ONCE,
    since: datetime | None = None,
    task_queue: str = WORKFLOW_TASK_QUEUE,
) -> int:
    """One visit of the archiver; how many jobs it archived."""
    activities = ArchiveActivities(store, OnlyTheseJobs(client, handles, task_queue), settle)
    result = await ActivityEnvironment().run(
        activities.archive_closed_jobs, ArchiveInput(since=since)
    )
    return result.archived


async def until_listed(client: Client, handle: JobHandle) -> None:
    """Wait until visibility knows that the run is closed."""

    async def is_listed() -> bool:
        query = f'WorkflowId="{handle.id}" AND ExecutionStatus!="Running"'
        return (await client.count_workflows(query)).count >= 1

    await until(is_listed)


class NoJobs:
    """Nothing was closed; remembers from when on it was asked."""

    def __init__(self) -> None:
        self.asked: list[datetime] = []

    async def closed_between(self, since: datetime, until: datetime) -> AsyncIterator[ClosedRun]:
        self.asked.append(since)
        return
        yield

    async def final_job(self, job_id: str) -> FinalJob | None:
        return None

    async def make_up_for(self, job: FinalJob) -> None:
        raise AssertionError("there is no job")


class NoJobsButFinal(NoJobs):
    """Lists nothing, and still knows how jobs ended."""

    def __init__(self, known: VisibleClosedJobs) -> None:
        super().__init__()
        self._known = known

    async def final_job(self, job_id: str) -> FinalJob | None:
        return await self._known.final_job(job_id)

    async def make_up_for(self, job: FinalJob) -> None:
        await self._known.make_up_for(job)
