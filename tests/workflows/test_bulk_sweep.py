"""A bulk's sweeps over the real server: which jobs they ask, and that each is asked once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from tests.servers import temporal_server
from tests.workflows.bulks import NOTE, accepted, accepted_at_once, signals_of, told
from tests.workflows.stage import Stage, events_of, until
from workflows.bulk_messages import BulkAction
from workflows.names import job_id_of
from workflows.options import BULK_QUIET
from workflows.state_machine import JobState

JOBS = 40


async def test_open_jobs_are_asked_and_no_others(stage: Stage, tenant: str) -> None:
    async with stage.deciding():
        queued = await stage.start(tenant=tenant)
        delayed = await stage.start(tenant=tenant, start_at=datetime.now(UTC) + timedelta(hours=1))
        paused = await stage.start(tenant=tenant)
        await paused.signal("pause")
        await stage.until(paused, JobState.PAUSED)
        ended = await stage.start(tenant=tenant)
        await ended.signal("cancel")
        await stage.until(ended, JobState.CANCELLED)
        other = await stage.start(tenant=f"{tenant}-2")
        bulk = await accepted(stage, "cancel", tenant)
        later = await stage.start(tenant=tenant)
        progress = await bulk.sweep()
        for handle in (queued, delayed, paused):
            view = await stage.until(handle, JobState.CANCELLED)
            last = view.transitions[-1]
            assert (last.source, last.message) == (NOTE.source, NOTE.message)
    assert told(progress) == {"matched": 3, "asked": 3}
    assert await signals_of(ended) == ["cancel"]
    assert await signals_of(other) == await signals_of(later) == []


@pytest.mark.parametrize("action", ["cancel", "pause"])
async def test_signal_is_taken_once_however_often_a_bulk_begins_anew(
    stage: Stage, tenant: str, action: BulkAction
) -> None:
    handle = await stage.start(tenant=tenant)
    bulk = await accepted(stage, action, tenant)
    for _ in range(3):
        # Nobody has heard the signal, and the count is the same each time.
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
    assert await signals_of(handle) == [action]


async def test_job_that_was_resumed_after_a_bulk_pause_stays_so(stage: Stage, tenant: str) -> None:
    async with stage.deciding():
        handle = await stage.start(tenant=tenant)
        bulk = await accepted(stage, "pause", tenant)
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(handle, JobState.PAUSED)
        await handle.signal("resume")
        await stage.until(handle, JobState.PENDING)
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until_decided(handle)
        assert events_of(await stage.view(handle)) == ["PAUSE", "RESUME"]
    assert await signals_of(handle) == ["pause", "resume"]


async def test_resume_asks_the_paused_and_is_refused_by_the_others(
    stage: Stage, tenant: str
) -> None:
    async with stage.deciding():
        waiting, paused = [await stage.start(tenant=tenant) for _ in range(2)]
        await paused.signal("pause")
        await stage.until(paused, JobState.PAUSED)
        bulk = await accepted(stage, "resume", tenant)
        assert told(await bulk.sweep()) == {"matched": 2, "asked": 1, "refused": 1}
        assert events_of(await stage.until(paused, JobState.PENDING)) == ["PAUSE", "RESUME"]
    assert await signals_of(waiting) == []


async def test_run_that_follows_under_the_same_id_is_left_alone(stage: Stage, tenant: str) -> None:
    handle = await stage.start(tenant=tenant)
    bulk = await accepted(stage, "cancel", tenant)
    await handle.terminate()
    again = await stage.start_raw(
        {"tenant": tenant, "parameters": {"prompt": "a", "seed": 1}}, workflow_id=handle.id
    )
    assert told(await bulk.sweep()) == {"matched": 1, "unchanged": 1}
    assert await signals_of(stage.client.get_workflow_handle(again.id)) == []


@pytest.fixture
async def sluggish() -> AsyncIterator[Client]:
    """A server whose visibility lags: it writes ten rows a second, not in order."""
    slow = "system.visibilityPersistenceMaxWriteQPS=10"
    async with temporal_server(slow, log_level="never") as client:
        yield client


async def test_jobs_that_visibility_tells_of_late_are_not_missed(
    sluggish: Client, tenant: str
) -> None:
    stage = Stage(sluggish)
    # At once: one after another they might be as slow as visibility is.
    handles = await asyncio.gather(*(stage.start(tenant=tenant) for _ in range(JOBS)))
    bulk = await accepted_at_once(sluggish, "cancel", tenant)
    visible = await sluggish.count_workflows(f'JobTenant = "{tenant}"')
    progress = await bulk.sweep(BULK_QUIET)
    assert visible.count < len(handles)
    assert told(progress) == {"matched": JOBS, "asked": JOBS}
    assert [await signals_of(handle) for handle in handles] == [["cancel"]] * JOBS


@pytest.fixture
async def sparing() -> AsyncIterator[Client]:
    """A server that takes one signal for a workflow."""
    async with temporal_server("history.maximumSignalsPerExecution=1") as client:
        yield client


async def test_job_whose_signals_are_used_up_is_cancelled_natively_or_told(
    sparing: Client, tenant: str
) -> None:
    stage = Stage(sparing)
    handle = await stage.start(tenant=tenant)
    await handle.signal("no signal of a job's")
    paused = await (await accepted(stage, "pause", tenant)).sweep()
    assert told(paused) == {"matched": 1, "failed": 1}
    [failure] = paused.failures
    assert failure.job_id == job_id_of(handle.id)
    assert failure.message == "Temporal takes no more signals for this job"
    cancelled = await (await accepted(stage, "cancel", tenant)).sweep()
    assert told(cancelled) == {"matched": 1, "asked": 1}

    async def has_ended() -> bool:
        return (await stage.view(handle)).state is JobState.CANCELLED

    async with stage.deciding():
        await until(has_ended)
