"""Amendments on a real server: a queue that is put into another order, and limits that move."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata

from activities.models import WorkInput, WorkResult
from tests.workflows.behaviours import hang, succeed, when, work_until_stopped
from tests.workflows.stage import JobHandle, Stage, events_of, until
from workflows.amending import MAX_AMENDMENTS
from workflows.messages import JobView
from workflows.search_attributes import JOB_PRIORITY
from workflows.state_machine import JobState


def is_amended(times: int) -> Callable[[JobView], bool]:
    """Whether so many amendments are on record."""
    return lambda view: len(view.status.amendments) == times


def has_priority(priority: int) -> Callable[[JobView], bool]:
    """Whether the priority is in force."""
    return lambda view: view.priority == priority


def has_been_at_work(view: JobView) -> bool:
    """Whether the shortest limit that there is has passed, and the attempt was heard."""
    begun = view.status.started_at
    long_ago = datetime.now(UTC) - timedelta(seconds=10.1)
    return begun is not None and begun < long_ago and view.status.progress is not None


async def until_queued(handle: JobHandle) -> None:
    """Wait until an attempt of the job is in the queue."""

    async def is_queued() -> bool:
        return bool((await handle.describe()).raw_description.pending_activities)

    await until(is_queued)


async def served_order(stage: Stage) -> list[str]:
    """Let one slot work on all jobs that are queued; their workflows in the order of service."""
    order: list[str] = []

    async def note(input: WorkInput) -> WorkResult:
        order.append(f"job-{input.job_id}")
        return await succeed(input)

    async with stage.working(stage.work(note), slots=1):
        await asyncio.gather(*(handle.result() for handle in stage.handles))
    return order


async def queued(stage: Stage, number: int, **fields: object) -> list[JobHandle]:
    """So many jobs, each in the queue before the next one comes."""
    handles = []
    for _ in range(number):
        handle = await stage.start(**fields)
        await stage.until_decided(handle)
        handles.append(handle)
    return handles


async def test_queued_jobs_are_served_by_the_priorities_they_have_by_then(stage: Stage) -> None:
    async with stage.deciding():
        jobs = await queued(stage, 5)
        await jobs[4].signal("amend", {"priority": 9})
        await stage.until(jobs[4], JobState.PENDING, is_amended(1))
        await jobs[0].signal("amend", {"priority": 1})
        await stage.until(jobs[0], JobState.PENDING, is_amended(1))
        # Back where it was, and behind those that have been there all the time.
        for priority in (7, 5):
            await jobs[1].signal("amend", {"priority": priority})
            await stage.until(jobs[1], JobState.PENDING, has_priority(priority))
        for handle in jobs:
            await stage.until_decided(handle)
        order = await served_order(stage)
    assert order == [jobs[n].id for n in (4, 2, 3, 1, 0)]
    for handle in jobs:
        view = await stage.view(handle)
        assert (view.status.attempt, events_of(view)) == (1, ["START", "COMPLETE"])


async def test_amendment_that_nobody_hears_yet_counts_once_somebody_does(stage: Stage) -> None:
    async with stage.deciding():
        first, second = await queued(stage, 2)
    await second.signal("amend", {"priority": 6, "source": "api:anne", "message": "urgent"})
    async with stage.deciding():
        view = await stage.until(second, JobState.PENDING, is_amended(1))
        await stage.until_decided(second)
        assert await served_order(stage) == [second.id, first.id]
    [entry] = view.status.amendments
    assert (entry.priority, entry.source, entry.message) == (6, "api:anne", "urgent")


async def test_new_priority_is_found_and_shown(stage: Stage) -> None:
    async with stage.deciding():
        [handle] = await queued(stage, 1)
        await stage.cli(
            *("workflow", "signal", "--workflow-id", handle.id, "--name", "amend"),
            *("--input", '{"priority": 0, "message": "at night"}'),
        )
        view = await stage.until(handle, JobState.PENDING, is_amended(1))
        assert view.status.amendments[0].source == "operator"
        told = (await handle.describe()).typed_search_attributes
        assert told.get(JOB_PRIORITY) == 0
        queried = await handle.query("view", result_type=JobView)
        assert (queried.priority, queried.status.priority) == (0, 0)


async def test_paused_and_delayed_jobs_are_dispatched_with_their_new_priority(
    stage: Stage,
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=3)
    async with stage.deciding():
        [paused] = await queued(stage, 1)
        await paused.signal("pause")
        await stage.until(paused, JobState.PAUSED)
        [delayed] = await queued(stage, 1, start_at=soon)
        for handle, state in ((paused, JobState.PAUSED), (delayed, JobState.PENDING)):
            await handle.signal("amend", {"priority": 7, "timeout_seconds": 60})
            view = await stage.until(handle, state, is_amended(1))
            assert view.priority == 7
        [plain] = await queued(stage, 1, priority=6)
        await paused.signal("resume")
        for handle in (paused, delayed):
            await until_queued(handle)
        order = await served_order(stage)
    assert set(order[:2]) == {paused.id, delayed.id}
    assert order[2] == plain.id
    assert (await stage.view(delayed)).status.dispatch == 1


async def test_attempt_that_is_just_being_claimed_is_fenced(stage: Stage) -> None:
    work = stage.work(succeed)
    async with stage.deciding():
        [handle] = await queued(stage, 1)
    # The worker is given the attempt, and its claim waits with the amendment for somebody to hear.
    async with stage.working(work):
        await handle.signal("amend", {"priority": 8})
        async with stage.deciding():
            await handle.result()
    view = await stage.view(handle)
    assert events_of(view) == ["START", "COMPLETE"]
    assert len(work.inputs) == 1
    assert view.priority == 8


async def test_running_job_keeps_a_new_priority_for_its_next_attempt(stage: Stage) -> None:
    released = asyncio.Event()
    async with stage.deciding(), stage.working(stage.work(when(released))):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
        await handle.signal("amend", {"priority": 8})
        view = await stage.until(handle, JobState.PROCESSING, is_amended(1))
        assert (view.priority, view.status.dispatch) == (8, 1)
        released.set()
        await handle.result()
    assert events_of(await stage.view(handle)) == ["START", "COMPLETE"]


async def test_limit_of_a_running_job_is_raised(stage: Stage) -> None:
    released = asyncio.Event()
    async with stage.deciding(), stage.working(stage.work(when(released))):
        handle = await stage.start(timeout_seconds=10)
        before = await stage.until(handle, JobState.PROCESSING)
        await handle.signal("amend", {"timeout_seconds": 86_400})
        after = await stage.until(handle, JobState.PROCESSING, is_amended(1))
        assert before.status.deadline_at is not None
        assert after.status.deadline_at is not None
        moved = after.status.deadline_at - before.status.deadline_at
        # Both are counted from the same beginning, but for the clock's last digits.
        assert abs(moved - timedelta(seconds=86_390)) < timedelta(milliseconds=1)
        released.set()
        await handle.result()


async def test_limit_that_is_past_once_it_is_lowered_is_judged_at_once(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(hang(idle_seconds=41))):
        handle = await stage.start(timeout_seconds=86_400)
        await stage.until(handle, JobState.PROCESSING, has_been_at_work)
        await handle.signal("amend", {"timeout_seconds": 10})
        view = await stage.until(handle, JobState.TIMEOUT_CANCELLED)
    assert "its limit of 10 s" in view.transitions[-1].message


@pytest.mark.parametrize(
    "args",
    [[], [{}], [None], [17], [{"priority": 10}], [{"priority": "7"}], [{"priority": 7, "x": 1}]],
    ids=str,
)
async def test_amendment_of_no_use_is_refused_and_changes_nothing(
    stage: Stage, args: list[Any]
) -> None:
    async with stage.deciding():
        [handle] = await queued(stage, 1)
        before = await stage.view(handle)
        await handle.signal("amend", args=args)
        await stage.until_decided(handle)
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        assert "AMEND was refused" in metadata.current_details
        assert (await stage.view(handle)).status == before.status


async def test_extra_arguments_are_ignored(stage: Stage) -> None:
    async with stage.deciding():
        [handle] = await queued(stage, 1)
        await handle.signal("amend", args=[{"priority": 8}, 2, "three"])
        await stage.until(handle, JobState.PENDING, is_amended(1))


async def test_storm_of_amendments_leaves_a_job_that_ends(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start()
        await asyncio.gather(
            *(handle.signal("amend", {"priority": n % 10}) for n in range(40)),
            *(handle.signal(name) for name in ("pause", "resume") * 3),
        )
        await handle.signal("cancel")
        assert (await handle.result()).state is JobState.CANCELLED
    assert len((await stage.view(handle)).status.amendments) <= MAX_AMENDMENTS
