"""A bulk's sweeps over the real server: which jobs they ask, and that each is asked once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment

from tests.conftest import TEMPORAL
from tests.workflows.behaviours import work_until_stopped
from tests.workflows.stage import Stage, events_of, until
from workflows.bulk_messages import BulkAction, BulkOrder, BulkProgress, CarryOutInput
from workflows.bulk_reading import start_bulk
from workflows.bulk_sweep import BulkActivities
from workflows.listing import JobFilter
from workflows.messages import job_id_of
from workflows.notes import ControlNote
from workflows.options import BULK_QUIET
from workflows.search_attributes import register_search_attributes
from workflows.state_machine import JobState

NOTE = ControlNote(source="api:somebody", message="all of them")
AT_ONCE = timedelta(0)
JOBS = 40


class Bulk:
    """A bulk whose own workflow nobody runs: its sweeps are made when a test says so."""

    def __init__(self, client: Client, input: CarryOutInput) -> None:
        self._client = client
        self._input = input

    async def sweep(self, quiet: timedelta = AT_ONCE) -> BulkProgress:
        """All sweeps, as one execution of the activity makes them."""
        activities = BulkActivities(self._client, quiet)
        progress: BulkProgress = await ActivityEnvironment(self._client).run(
            activities.carry_out_bulk, self._input
        )
        return progress


async def accepted(stage: Stage, action: BulkAction, tenant: str, **fields: Any) -> Bulk:
    """A bulk on the tenant's jobs, once all that the stage has started can be listed."""

    async def are_listed() -> bool:
        ids = ", ".join(f'"{handle.id}"' for handle in stage.handles)
        return (await stage.client.count_workflows(f"WorkflowId IN ({ids})")).count >= len(
            stage.handles
        )

    await until(are_listed)
    return await accepted_at_once(stage.client, action, tenant, **fields)


async def accepted_at_once(client: Client, action: BulkAction, tenant: str, **fields: Any) -> Bulk:
    """A bulk, whatever can be listed."""
    bulk_id, wanted = uuid4().hex, JobFilter(tenant=tenant, **fields)
    order = BulkOrder(action=action, filter=wanted, note=NOTE)
    handle = await start_bulk(client, bulk_id, order, task_queue=f"nobody-{bulk_id}")
    cutoff_at = (await handle.describe()).start_time
    await handle.terminate()
    return Bulk(client, CarryOutInput(bulk_id=bulk_id, order=order, cutoff_at=cutoff_at))


@pytest.fixture
def tenant() -> str:
    """A tenant of this test's own."""
    return f"t-{uuid4().hex[:12]}"


async def signals_of(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """The signals that a job was sent, in order."""
    return [
        event.workflow_execution_signaled_event_attributes.signal_name
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    ]


def told(progress: BulkProgress) -> dict[str, int]:
    """The counts that are not zero."""
    counts = progress.model_dump(exclude={"failures"})
    return {name: count for name, count in counts.items() if count}


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


async def test_what_was_asked_after_the_cutoff_is_newer_than_the_bulk(
    stage: Stage, tenant: str
) -> None:
    async with stage.deciding():
        handle = await stage.start(tenant=tenant)
        await handle.signal("pause")
        await stage.until(handle, JobState.PAUSED)
        bulk = await accepted(stage, "pause", tenant)
        await handle.signal("resume")
        await stage.until(handle, JobState.PENDING)
        assert told(await bulk.sweep()) == {"matched": 1, "unchanged": 1}
    assert await signals_of(handle) == ["pause", "resume"]


async def test_state_that_counts_is_that_at_the_cutoff(stage: Stage, tenant: str) -> None:
    """A job that starts when another is paused is not paused in its turn."""
    async with stage.deciding(), stage.working(stage.work(work_until_stopped), slots=1):
        first = await stage.start(tenant=tenant)
        await stage.until(first, JobState.PROCESSING)
        second = await stage.start(tenant=tenant)
        bulk = await accepted(stage, "pause", tenant, states=(JobState.PROCESSING,))
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(first, JobState.PAUSED)
        await stage.until(second, JobState.PROCESSING)
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until_decided(second)
        assert events_of(await stage.view(second)) == ["START"]


async def test_job_that_went_on_since_the_cutoff_is_still_meant(stage: Stage, tenant: str) -> None:
    handle = await stage.start(tenant=tenant)
    bulk = await accepted(stage, "cancel", tenant, states=(JobState.PENDING,))
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        worker = (await stage.until(handle, JobState.PROCESSING)).status.worker or ""
        later = await accepted(stage, "cancel", tenant, workers=(f"{worker}-2",))
        assert told(await later.sweep()) == {}
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(handle, JobState.CANCELLED)


async def test_running_job_is_meant_by_its_worker(stage: Stage, tenant: str) -> None:
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start(tenant=tenant)
        worker = (await stage.until(handle, JobState.PROCESSING)).status.worker or ""
        bulk = await accepted(stage, "cancel", tenant, workers=(worker,))
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(handle, JobState.CANCELLED)
        # Whoever begins anew finds it again, closed by now, and knows whose cancel it was.
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}


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
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(TEMPORAL),
        dev_server_log_level="never",
        dev_server_extra_args=[
            "--dynamic-config-value",
            "system.visibilityPersistenceMaxWriteQPS=10",
        ],
    ) as environment:
        await register_search_attributes(environment.client)
        yield environment.client


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
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(TEMPORAL),
        dev_server_log_level="error",
        dev_server_extra_args=[
            "--dynamic-config-value",
            "history.maximumSignalsPerExecution=1",
        ],
    ) as environment:
        await register_search_attributes(environment.client)
        yield environment.client


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
