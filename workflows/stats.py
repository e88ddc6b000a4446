"""Figures of one tenant's jobs, from a number of queries that doesn't grow with the jobs."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client, WorkflowExecution

from activities.values import Model
from workflows.job_record import REQUEST_KEY, STATUS_KEY
from workflows.lister import JobLister
from workflows.listing import JobFilter, in_state, job_query, moment
from workflows.messages import JobView
from workflows.paging import narrow
from workflows.search_attributes import JOB_UPDATED_AT
from workflows.state_machine import JobState
from workflows.times import in_utc

# The jobs that percentiles are of: of this time, and of these the last.
WINDOW = timedelta(hours=1)
WINDOW_JOBS = 500
SLOWEST = 10

# Beyond this, the slowest of those that run are sought by counting.
_MAX_RUNNING_ROWS = 60
_LONGEST_RUN = timedelta(days=400)


class Percentiles(Model):
    """Of some durations, in seconds; None of none."""

    p50: float | None
    p95: float | None
    p99: float | None


class JobStats(Model):
    """Figures at one moment; `window_jobs` finished between `window_from` and then."""

    at: datetime
    counts: dict[JobState, int]
    window_from: datetime
    window_jobs: int
    duration: Percentiles
    waiting: Percentiles
    slowest: tuple[JobView, ...]


def percentiles(seconds: Sequence[float]) -> Percentiles:
    """By nearest rank: each is one of the durations."""
    ordered = sorted(seconds)

    def rank(share: float) -> float | None:
        return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else None

    return Percentiles(p50=rank(0.5), p95=rank(0.95), p99=rank(0.99))


def waited_seconds(created_at: datetime, memo: Mapping[str, Any]) -> float | None:
    """How long a job waited for its first attempt since it could start; None if it had none."""
    try:
        started_at = in_utc(datetime.fromisoformat(memo[STATUS_KEY]["started_at"]))
        start_at = (memo.get(REQUEST_KEY) or {}).get("start_at")
        since = (
            max(in_utc(datetime.fromisoformat(start_at)), created_at) if start_at else created_at
        )
    # Anybody may write to a memo; one that can't be read is no part of the figures.
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    return max((started_at - since).total_seconds(), 0.0)


class StatsReader:
    """Counts a tenant's jobs."""

    def __init__(self, client: Client, tenant: str) -> None:
        self._lister = JobLister(client)
        self._of_tenant = JobFilter(tenant=tenant)

    async def read(self) -> JobStats:
        """The figures now."""
        now = datetime.now(UTC)
        base = job_query(self._of_tenant, now)
        counts = await self._counts(base)
        finished = await self._finished(base, now)
        return JobStats(
            at=now,
            counts=counts,
            window_from=now - WINDOW,
            window_jobs=len(finished),
            duration=percentiles([_duration(row) for row in finished]),
            waiting=percentiles(await _waits(finished)),
            slowest=await self._slowest(base, now, counts[JobState.PROCESSING]),
        )

    async def _counts(self, base: str) -> dict[JobState, int]:
        counts = (self._lister.count(f"{base} AND {in_state(state)}") for state in JobState)
        return dict(zip(JobState, await asyncio.gather(*counts), strict=True))

    async def _finished(self, base: str, now: datetime) -> list[WorkflowExecution]:
        """The last jobs that were closed: Temporal lists the last first."""
        query = f'{base} AND ExecutionStatus != "Running" AND CloseTime >= {moment(now - WINDOW)}'
        return await self._lister.newest_rows(query, WINDOW_JOBS)

    async def _slowest(self, base: str, now: datetime, running: int) -> tuple[JobView, ...]:
        """Those that have been in PROCESSING for longest, the longest first."""
        query = f"{base} AND {in_state(JobState.PROCESSING)}"
        if running > _MAX_RUNNING_ROWS:

            async def count(before: datetime) -> int:
                return await self._lister.count(f"{query} AND {_unmoved_since(before)}")

            before = await narrow(count, (now - _LONGEST_RUN, 0), (now, running), 2 * SLOWEST)
            query = f"{query} AND {_unmoved_since(before)}"
        views = await self._lister.views(
            await self._lister.newest_rows(query, 2 * _MAX_RUNNING_ROWS)
        )
        processing = [view for view in views if view.state is JobState.PROCESSING]
        return tuple(sorted(processing, key=lambda view: view.updated_at)[:SLOWEST])


def _unmoved_since(before: datetime) -> str:
    return f"{JOB_UPDATED_AT.name} <= {moment(before)}"


def _duration(row: WorkflowExecution) -> float:
    ended_at = row.close_time or row.start_time
    return max((ended_at - row.start_time).total_seconds(), 0.0)


async def _waits(rows: Sequence[WorkflowExecution]) -> list[float]:
    waits = []
    for row in rows:
        waits.append(waited_seconds(row.start_time, await _memo(row)))
        # Others are served between two rows.
        await asyncio.sleep(0)
    return [seconds for seconds in waits if seconds is not None]


async def _memo(row: WorkflowExecution) -> Mapping[str, Any]:
    try:
        return await row.memo()
    except Exception:  # noqa: BLE001 - an encoding of anybody's own
        return {}
