"""The archiver's work: what stays of a job once its run is closed, and what goes."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pydantic import ValidationError
from temporalio import activity

from activities.artifacts import ArtifactLostError, ArtifactStore
from activities.errors import WorkError
from activities.refs import image_folder, pristine_folder
from activities.values import Model

# Visibility tells of a closed run a moment late: what was seen is looked through again.
_OVERLAP = timedelta(minutes=2)
# After the clock was set back, runs close at times that an earlier visit has been through.
_OVERLAP_AFTER_STEP_BACK = timedelta(hours=1)
# More failures than this are no matter of single jobs: the visit fails, and is made again.
_MOST_FAILURES = 100


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

    async def make_up_for(self, job: FinalJob) -> None:
        """Do what follows a final state, where the run was cut short before it could."""


class ArchiveInput(Model):
    """From when on runs are to be visited; None for all that Temporal knows.

    `failed` could not be archived by the visit before, and are tried again.
    """

    since: datetime | None
    failed: tuple[ClosedRun, ...] = ()


class ArchiveResult(Model):
    """Up to when all closed runs were visited, and which of them could not be archived."""

    until: datetime
    archived: int
    failed: tuple[ClosedRun, ...] = ()


def archive_key(job_id: str) -> str:
    """Where a job's final view is."""
    return f"{image_folder(job_id)}/job.json"


async def read_archived(store: ArtifactStore, job_id: str) -> ArchivedJob | None:
    """What the archive knows of a job, if anything; a damaged file knows nothing."""
    try:
        return ArchivedJob.model_validate_json(await store.get(archive_key(job_id)))
    except (ArtifactLostError, ValidationError):
        return None


class ArchiveActivities:
    """Visits closed jobs. `settle` is how long after its end no attempt can be writing any more."""

    def __init__(
        self,
        store: ArtifactStore,
        jobs: ClosedJobs,
        settle: timedelta,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._settle = settle
        self._clock = clock

    @activity.defn
    async def archive_closed_jobs(self, input: ArchiveInput) -> ArchiveResult:
        """Archive every job that was closed since; a retry finds the archived ones done.

        A job that can't be archived stands in nobody's way: the next visit tries it again.
        """
        until = self._clock() - self._settle
        archived, failed = 0, list[ClosedRun]()
        async for run in self._to_visit(input, until):
            try:
                archived += await self._archive(run)
            except WorkError as error:
                activity.logger.warning("job %s can't be archived: %s", run.job_id, error.message)
                failed.append(run)
                if len(failed) > _MOST_FAILURES:
                    raise
            activity.heartbeat(archived)
        return ArchiveResult(until=until, archived=archived, failed=tuple(failed))

    async def _to_visit(self, input: ArchiveInput, until: datetime) -> AsyncIterator[ClosedRun]:
        for run in input.failed:
            yield run
        since = datetime.fromtimestamp(0, UTC)
        if input.since is not None and input.since > until:
            since = until - _OVERLAP_AFTER_STEP_BACK
        elif input.since is not None:
            since = input.since - _OVERLAP
        async for run in self._jobs.closed_between(since, until):
            if run not in input.failed:
                yield run

    async def _archive(self, run: ClosedRun) -> bool:
        known = await read_archived(self._store, run.job_id)
        if known is not None and known.run_id == run.run_id:
            return False
        job = await self._jobs.final_job(run.job_id)
        if job is None or (known is not None and known.run_id == job.run_id):
            return False
        await self._jobs.make_up_for(job)
        await self._clean(run.job_id, job.keep)
        # Last, because it is what says that the rest is done.
        document = ArchivedJob(run_id=job.run_id, view=job.view).model_dump_json()
        await self._store.put(archive_key(run.job_id), document.encode())
        return True

    async def _clean(self, job_id: str, keep: tuple[str, ...]) -> None:
        """Remove checkpoints, and what attempts left that were given up."""
        for key in await self._store.list(f"checkpoints/{job_id}"):
            await self._store.delete(key)
        for folder in (image_folder(job_id), pristine_folder(job_id)):
            for key in await self._store.list(folder):
                if key not in keep and key != archive_key(job_id):
                    await self._store.delete(key)
