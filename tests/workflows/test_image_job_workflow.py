"""The life of a job on a real server: success, failures, retries, losses, and its limits."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from activities.errors import ErrorKind
from tests.workflows.behaviours import (
    checkpoint_of,
    fail_with,
    fall_silent,
    hang,
    one_after_another,
    succeed,
    when,
    work_until_stopped,
)
from tests.workflows.stage import Stage, events_of
from workflows.chain import in_chain
from workflows.messages import ChainState
from workflows.names import job_id_of
from workflows.search_attributes import (
    JOB_ENGINE,
    JOB_PRIORITY,
    JOB_STATE,
    JOB_TENANT,
    JOB_TYPE,
    JOB_UPDATED_AT,
    JOB_WORKER,
)
from workflows.state_machine import JobState


async def test_success_tells_each_transition_with_source_and_message(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start()
        outcome = await handle.result()
    assert outcome.state is JobState.SUCCESS
    assert outcome.artifact is not None
    view = await stage.view(handle)
    me = f"worker:{stage.client.identity}"
    assert [(t.sequence, t.from_state, t.event, t.to_state) for t in view.transitions] == [
        (1, "PENDING", "START", "PROCESSING"),
        (2, "PROCESSING", "COMPLETE", "SUCCESS"),
    ]
    assert [(t.source, t.message) for t in view.transitions] == [
        (me, "attempt 1 of 3"),
        (me, "the image is stored"),
    ]
    assert view.created_at <= view.transitions[0].at <= view.transitions[1].at == view.updated_at
    assert view.status.progress is not None
    assert view.status.progress.percent == 100


async def test_success_is_told_by_search_attributes_and_a_closed_run(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start(priority=9, tenant="anne")
        await handle.result()
    description = await handle.describe()
    view = await stage.view(handle)
    attributes = description.typed_search_attributes
    assert attributes[JOB_STATE] == "SUCCESS"
    assert attributes[JOB_TYPE] == "TEXT_TO_IMAGE"
    assert attributes[JOB_ENGINE] == stage.engine
    assert attributes[JOB_TENANT] == "anne"
    assert attributes[JOB_PRIORITY] == 9
    assert attributes[JOB_WORKER] == stage.client.identity
    assert abs(attributes[JOB_UPDATED_AT] - view.updated_at) < timedelta(milliseconds=1)
    assert description.status is WorkflowExecutionStatus.COMPLETED


async def test_success_costs_at_most_22_events(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start()
        await handle.result()
    history = await handle.fetch_history()
    assert len(history.events) <= 22
    assert len(history.to_json()) < 40_000


async def test_failed_job_closes_its_run_as_failed_with_kind_and_message(stage: Stage) -> None:
    work = stage.work(fail_with(ErrorKind.CONTENT_REJECTED, "the prompt was rejected"))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.message) == ("CONTENT_REJECTED", "the prompt was rejected")
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED
    view = await stage.view(handle)
    assert events_of(view) == ["START", "FAIL"]
    assert view.status.error is not None
    assert not view.status.error.retryable


async def test_failed_attempt_is_followed_by_another_and_history_says_why(stage: Stage) -> None:
    first = fail_with(ErrorKind.RATE_LIMITED, "slow down", retry_after_seconds=0.3)
    work = stage.work(one_after_another([first, succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await handle.result()
    view = await stage.view(handle)
    assert events_of(view) == ["START", "RETRY", "START", "COMPLETE"]
    retry, start = view.transitions[1:3]
    assert retry.message == "slow down; next attempt in 0 s"
    assert start.at - retry.at >= timedelta(seconds=0.3)
    assert [task.dispatch for task in work.inputs] == [1, 2]
    assert view.status.attempt == 2


async def test_out_of_memory_twice_is_the_end(stage: Stage) -> None:
    work = stage.work(fail_with(ErrorKind.OUT_OF_MEMORY, retry_after_seconds=0))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start(max_attempts=10)
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert len(work.inputs) == 2


async def test_lost_worker_is_replaced_from_the_checkpoint_of_its_last_heartbeat(
    stage: Stage,
) -> None:
    work = stage.work(one_after_another([fall_silent, succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        view = await stage.until(handle, JobState.PROCESSING, lambda v: bool(v.status.progress))
        assert view.status.progress is not None
        assert view.status.progress.step == 12
        await handle.result()
    view = await stage.view(handle)
    assert events_of(view) == ["START", "RETRY", "START", "COMPLETE"]
    retry = view.transitions[1]
    assert retry.source == "watchdog"
    lost = f"the worker {stage.client.identity} was lost: no heartbeat for 4 s"
    assert retry.message == f"{lost}; next attempt at once"
    assert retry.at - view.transitions[0].at < timedelta(seconds=6)
    assert work.inputs[1].checkpoint == checkpoint_of(work.inputs[0], 12)


async def test_worker_that_stops_hands_its_job_back_at_once(stage: Stage) -> None:
    first, second = stage.work(work_until_stopped), stage.work(succeed)
    async with stage.deciding():
        async with stage.working(first):
            handle = await stage.start(max_attempts=1)
            await stage.until(handle, JobState.PROCESSING, lambda v: bool(v.status.progress))
        async with stage.working(second):
            await handle.result()
    view = await stage.view(handle)
    assert events_of(view) == ["START", "PAUSE", "RESUME", "START", "COMPLETE"]
    assert second.inputs[0].checkpoint == checkpoint_of(first.inputs[0], 1)
    assert view.status.attempt == 1


async def test_limits_end_a_job_that_hangs_or_waits_and_extend_one_that_moves(
    stage: Stage,
) -> None:
    """All limits are ten seconds at the least, so they are waited for at the same time."""
    released = asyncio.Event()
    mover, chained = Stage(stage.client), Stage(stage.client)
    async with (
        stage.deciding(),
        mover.deciding(),
        chained.deciding(),
        stage.working(stage.work(hang(idle_seconds=41))),
        mover.working(mover.work(when(released))),
        chained.working(chained.work(succeed)),
        chained.removing(chained.work(hang(idle_seconds=41))),
    ):
        hanging = await stage.start(timeout_seconds=10)
        unserved = await stage.start(engine=f"{stage.engine}-x", queue_timeout_seconds=10)
        moving = await mover.start(timeout_seconds=10)
        first = await chained.start(
            timeout_seconds=10, watermark="remove", label_terms_accepted=True
        )
        results = await asyncio.gather(hanging.result(), unserved.result(), return_exceptions=True)
        removal = chained.successor(first)
        await chained.until(removal, JobState.TIMEOUT_CANCELLED)
        extended = await mover.until(
            moving, JobState.PROCESSING, lambda v: bool(v.status.extensions)
        )
        released.set()
        await moving.result()
    assert all(isinstance(result, WorkflowFailureError) for result in results)
    await expect_timeout(
        stage, hanging, "the job was worked on for its limit of 10 s, without progress for 10 s"
    )
    await expect_timeout(
        chained, removal, "the job was worked on for its limit of 10 s, without progress for 10 s"
    )
    # Its label could not be removed in time; the image is there all the same.
    chain = in_chain(await chained.view(first), await chained.view(removal))
    assert (chain.state, chain.chain) == (JobState.SUCCESS, ChainState.REMOVAL_FAILED)
    await expect_timeout(stage, unserved, "no worker took the job within its queue limit of 10 s")
    assert extended.status.deadline_at == extended.status.extensions[0].until
    await mover.close()
    await chained.close()


async def expect_timeout(stage: Stage, handle: WorkflowHandle[Any, Any], words: str) -> None:
    """The watchdog ended the job, and says so in these words."""
    view = await stage.view(handle)
    assert view.state is JobState.TIMEOUT_CANCELLED
    assert view.transitions[-1].source == "watchdog"
    assert view.transitions[-1].message.startswith(words)
    assert view.status.error is not None
    assert view.status.error.kind == ErrorKind.TIMEOUT
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED


async def test_delayed_job_starts_when_its_time_has_come(stage: Stage) -> None:
    start_at = datetime.now(UTC) + timedelta(seconds=1.5)
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start(start_at=start_at)
        view = await stage.view(handle)
        assert view.waiting_for == f"starts at {start_at:%Y-%m-%dT%H:%M:%SZ}"
        await handle.result()
    view = await stage.view(handle)
    assert view.status.started_at is not None
    assert view.status.started_at >= start_at


@pytest.mark.parametrize("year", [2027, 2100, 2200])
async def test_delayed_job_is_cancelled_at_once(stage: Stage, year: int) -> None:
    work = stage.work(succeed)
    async with stage.deciding(), stage.working(work):
        handle = await stage.start(start_at=datetime(year, 12, 31, tzinfo=UTC))
        await handle.signal("cancel")
        assert (await handle.result()).state is JobState.CANCELLED
    assert work.inputs == []


async def test_start_in_the_past_is_no_delay(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start(start_at=datetime(2000, 1, 1, tzinfo=UTC))
        await handle.result()


async def test_attempt_completed_by_hand_with_nonsense_is_only_a_failed_attempt(
    stage: Stage,
) -> None:
    work = stage.work(one_after_another([fall_silent, succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
        await stage.cli(
            *("activity", "complete", "--workflow-id", handle.id),
            *("--activity-id", "attempt-1", "--result", '{"done": true}'),
        )
        await handle.result()
    view = await stage.view(handle)
    assert view.transitions[1].message.startswith("the attempt's result could not be read")


async def test_image_of_another_job_that_was_made_up_by_hand_is_not_taken(stage: Stage) -> None:
    sha256 = "0" * 64
    image = {"key": f"jobs/y/{sha256}.png", "sha256": sha256, "media_type": "image/png"}
    forged = {"worker": "w", "artifact": image | {"byte_size": 1, "width": 64, "height": 64}}
    work = stage.work(one_after_another([fall_silent, succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
        await stage.cli(
            *("activity", "complete", "--workflow-id", handle.id),
            *("--activity-id", "attempt-1", "--result", json.dumps(forged)),
        )
        outcome = await handle.result()
    assert outcome.artifact is not None
    assert outcome.artifact.is_of(job_id_of(handle.id) or "")
    view = await stage.view(handle)
    assert events_of(view) == ["START", "RETRY", "START", "COMPLETE"]


async def test_attempt_failed_by_hand_is_followed_by_another(stage: Stage) -> None:
    work = stage.work(one_after_another([fall_silent, succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
        await stage.cli(
            *("activity", "fail", "--workflow-id", handle.id),
            *("--activity-id", "attempt-1", "--reason", "bad card", "--detail", '{"a": 1}'),
        )
        await handle.result()
    assert events_of(await stage.view(handle)) == ["START", "RETRY", "START", "COMPLETE"]
