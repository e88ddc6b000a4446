"""Reading a job from outside: true whoever is dead."""

import asyncio
import time
from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio import activity

from activities.errors import ErrorKind
from activities.models import WorkInput, WorkResult
from tests.workflows.behaviours import fail_with, when, work_until_stopped
from tests.workflows.stage import Stage, events_of
from workflows.messages import JobView
from workflows.names import workflow_id_for
from workflows.reading import JobNotFoundError
from workflows.state_machine import JobState


async def test_job_that_no_worker_has_seen_says_so(stage: Stage) -> None:
    view = await stage.view(await stage.start())
    assert view.state is JobState.PENDING
    assert view.waiting_for == (
        "no worker decides what happens next: workflow workers are down; "
        f"no worker serves the engine {stage.engine}"
    )
    assert view.transitions == ()
    assert view.request is not None


async def test_job_that_nobody_decides_about_does_not_wait_for_a_free_worker(stage: Stage) -> None:
    async with stage.working(stage.work(when(asyncio.Event()))):
        handle = await stage.start()
        told = "no worker decides what happens next: workflow workers are down"
        await stage.until(handle, JobState.PENDING, lambda view: view.waiting_for == told)


async def test_queued_job_says_that_no_worker_serves_its_engine(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        view = await stage.view(handle)
    assert view.waiting_for == f"no worker serves the engine {stage.engine}"


async def test_queued_job_waits_for_a_free_worker_behind_others(stage: Stage) -> None:
    released = asyncio.Event()
    async with stage.deciding(), stage.working(stage.work(when(released)), slots=1):
        first = await stage.start()
        await stage.until(first, JobState.PROCESSING)
        others = [await stage.start() for _ in range(3)]
        await stage.until(
            others[0], JobState.PENDING, lambda v: (v.waiting_for or "").startswith("a free worker")
        )
        assert (await stage.view(first)).waiting_for is None
        released.set()
        await asyncio.gather(*(other.result() for other in others))


@pytest.mark.parametrize("reason", ["out of budget", "第一"])
async def test_terminated_job_reads_as_failed_with_the_operators_reason(
    stage: Stage, reason: str
) -> None:
    handle = await stage.start()
    await handle.terminate(reason=reason)
    view = await stage.view(handle)
    [end] = view.transitions
    assert (end.from_state, end.event, end.to_state) == ("PENDING", "FAIL", "FAILED")
    assert end.source == "operator"
    assert end.message == f"terminated by an operator: {reason}"
    assert view.state is JobState.FAILED
    assert view.updated_at == end.at == view.status.finished_at
    assert view.status.error is not None
    assert (view.status.error.kind, view.status.error.message) == ("TERMINATED", end.message)
    assert view.waiting_for is None


async def test_job_that_is_terminated_while_it_runs_keeps_its_story(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
        await handle.terminate(reason="enough")
        view = await stage.view(handle)
    assert events_of(view) == ["START", "FAIL"]
    assert view.transitions[1].sequence == 2
    assert view.status.deadline_at is None


async def test_finished_job_cannot_be_terminated_into_another_state(stage: Stage) -> None:
    work = stage.work(fail_with(ErrorKind.CONTENT_REJECTED))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.FAILED)
    view = await stage.view(handle)
    assert view.status.error is not None
    assert view.status.error.kind == "CONTENT_REJECTED"


async def test_job_that_outlived_every_limit_reads_as_timed_out(stage: Stage) -> None:
    handle = await stage.client.start_workflow(
        "ImageJobWorkflow",
        {"parameters": {"prompt": "x"}},
        id=workflow_id_for(uuid4().hex),
        task_queue=stage.task_queue,
        execution_timeout=timedelta(seconds=1),
    )
    stage.handles.append(handle)
    view = await stage.until(handle, JobState.TIMEOUT_CANCELLED)
    [end] = view.transitions
    assert (end.event, end.source) == ("TIMEOUT", "watchdog")
    assert view.status.error is not None
    assert view.status.error.kind == "TIMEOUT"


@pytest.mark.parametrize(
    ("signals", "wish"),
    [
        (["pause"], "pause"),
        (["cancel"], "cancel"),
        (["pause", "resume"], None),
        (["cancel", "resume"], "cancel"),
        (["pause", "cancel"], "cancel"),
        (["cancel", "pause"], "cancel"),
        (["resume"], None),
    ],
)
async def test_wish_that_no_worker_has_heard_is_shown(
    stage: Stage, signals: list[str], wish: str | None
) -> None:
    handle = await stage.start()
    for name in signals:
        await handle.signal(name)
    assert (await stage.view(handle)).status.pending_request == wish


async def test_native_cancel_that_no_worker_has_heard_is_shown(stage: Stage) -> None:
    handle = await stage.start()
    await handle.cancel()
    assert (await stage.view(handle)).status.pending_request == "cancel"


async def test_progress_comes_from_the_heartbeats(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(when(asyncio.Event()))):
        handle = await stage.start()
        view = await stage.until(handle, JobState.PROCESSING, lambda v: bool(v.status.progress))
        assert view.status.progress is not None
        assert (view.status.progress.step, view.status.progress.percent) == (5, 16)
        await handle.signal("cancel")
        await handle.result()


async def heartbeat_nonsense(input: WorkInput) -> WorkResult:
    """Heartbeat what no reader of this build understands."""
    while True:
        activity.heartbeat({"steps": "many"})
        await asyncio.sleep(0.05)


async def test_heartbeat_of_another_build_leaves_the_job_readable(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(heartbeat_nonsense)):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
        await asyncio.sleep(0.3)  # the heartbeats are throttled
        assert (await stage.view(handle)).status.progress is None


async def test_job_whose_attempt_is_over_waits_for_a_workflow_worker(stage: Stage) -> None:
    async with stage.working(stage.work(work_until_stopped)), stage.deciding():
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
    view = await stage.until(handle, JobState.PROCESSING, lambda v: v.waiting_for is not None)
    assert "no worker decides" in (view.waiting_for or "") or view.waiting_for == (
        "waiting for a workflow worker"
    )


async def test_change_is_told_as_soon_as_it_comes(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        known = await stage.view(handle)
        reading = asyncio.create_task(after_change(stage, known, 20))
        began = time.monotonic()
        await handle.signal("pause")
        view = await reading
    assert view.state is JobState.PAUSED
    assert time.monotonic() - began < 5


async def test_unchanged_job_is_told_at_the_limit(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        known = await stage.view(handle)
        began = time.monotonic()
        view = await after_change(stage, known, 0.5)
    assert 0.5 <= time.monotonic() - began < 5
    assert view.moment == known.moment


async def test_change_that_was_missed_is_told_at_once(stage: Stage) -> None:
    handle = await stage.start()
    known = await stage.view(handle)
    await handle.terminate()
    view = await after_change(stage, known, 20)
    assert view.state is JobState.FAILED
    assert await after_change(stage, view, 20) == view


async def test_end_by_an_operator_is_a_change(stage: Stage) -> None:
    handle = await stage.start()
    known = await stage.view(handle)
    reading = asyncio.create_task(after_change(stage, known, 20))
    await handle.terminate(reason="enough")
    assert (await reading).state is JobState.FAILED


async def after_change(stage: Stage, known: JobView, seconds: float) -> JobView:
    """Read the job once it has changed."""
    return await stage.reader.read_after_change(known.id, known, timedelta(seconds=seconds))


@pytest.mark.parametrize("job_id", ["no-such-job", "", "../x", "a" * 2000, "💥", "a b"])
async def test_unknown_job_is_not_found(stage: Stage, job_id: str) -> None:
    with pytest.raises(JobNotFoundError):
        await stage.reader.read(job_id)


async def test_workflow_of_another_type_is_no_job(stage: Stage) -> None:
    job_id = uuid4().hex
    handle = await stage.client.start_workflow(
        "SomethingElse", id=workflow_id_for(job_id), task_queue=stage.task_queue
    )
    with pytest.raises(JobNotFoundError):
        await stage.reader.read(job_id)
    await handle.terminate()
