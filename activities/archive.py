"""The archiver's work: what stays of a job once its run is closed, and what goes."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Protocol

from temporalio import activity

from activities.artifacts import ArtifactLostError, ArtifactStore
from activities.models import Model

# Visibility tells of a closed run a moment late: what was seen is looked through again.
_OVERLAP = timedelta(minutes=2)


class ClosedRun(Model):
    """A run that has ended."""

    job_id: str
    run_id: str


class FinalJob(Model):
    """A job that is over: its last run, the keys that count, and its final view as JSON."""

    run_id: str
    keep: tuple[str, ...]
    view: str


class ArchivedJob(Model):
    """What `job.json` holds: the final view, of which run."""

    run_id: str
    view: str


class ClosedJobs(Protocol):
    """Where the archiver learns which jobs are over."""

    def closed_between(self, since: datetime, until: datetime) -> AsyncIterator[ClosedRun]:
        """Runs that were closed in this time."""
        ...

    async def final_job(self, job_id: str) -> FinalJob | None:
        """The job as it ended; None if it lives again, or can't be read."""
        ...


class ArchiveInput(Model):
    """From when on runs are to be visited; None for all that Temporal knows."""

    since: datetime | None


class ArchiveResult(Model):
    """Up to when all closed runs were visited."""

    until: datetime
    archived: int


def archive_key(job_id: str) -> str:
    """Where a job's final view is."""
    return f"jobs/{job_id}/job.json"


async def read_archived(store: ArtifactStore, job_id: str) -> ArchivedJob | None:
    """What the archive knows of a job, if anything."""
    try:
        return ArchivedJob.model_validate_json(await store.get(archive_key(job_id)))
    except ArtifactLostError:
        return None


class ArchiveActivities:
    """Visits closed jobs. `settle` is how long after its end no attempt can be writing any more."""

    def __init__(self, store: ArtifactStore, jobs: ClosedJobs, settle: timedelta) -> None:
        self._store = store
        self._jobs = jobs
        self._settle = settle

    @activity.defn
    async def archive_closed_jobs(self, input: ArchiveInput) -> ArchiveResult:
        """Archive every job that was closed since; a retry finds the archived ones done."""
        until = datetime.now(UTC) - self._settle
        since = input.since - _OVERLAP if input.since else datetime.fromtimestamp(0, UTC)
        archived = 0
        async for run in self._jobs.closed_between(since, until):
            archived += await self._archive(run)
            activity.heartbeat(archived)
        # A clock that was set back must not make the next visit begin earlier and earlier.
        return ArchiveResult(until=max(until, input.since or until), archived=archived)

    async def _archive(self, run: ClosedRun) -> bool:
        known = await read_archived(self._store, run.job_id)
        if known is not None and known.run_id == run.run_id:
            return False
        job = await self._jobs.final_job(run.job_id)
        if job is None or (known is not None and known.run_id == job.run_id):
            return False
        await self._clean(run.job_id, job.keep)
        # Last, because it is what says that the rest is done.
        document = ArchivedJob(run_id=job.run_id, view=job.view).model_dump_json()
        await self._store.put(archive_key(run.job_id), document.encode())
        return True

    async def _clean(self, job_id: str, keep: tuple[str, ...]) -> None:
        """Remove checkpoints, and what attempts left that were given up."""
        for key in await self._store.list(f"checkpoints/{job_id}"):
            await self._store.delete(key)
        for key in await self._store.list(f"jobs/{job_id}"):
            if key not in keep and key != archive_key(job_id):
                await self._store.delete(key)
