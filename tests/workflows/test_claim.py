"""The claim: who may start, on a real server, and that a refusal leaves no trace."""

import asyncio
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.errors import ErrorKind
from activities.models import CLAIM_REFUSED, ClaimInput
from tests.workflows.behaviours import fail_with, succeed, when, work_until_stopped
from tests.workflows.stage import JobHandle, Stage, count, events_of
from workflows.state_machine import JobState


def claim_of(dispatch: int) -> ClaimInput:
    """A worker's claim."""
    return ClaimInput(dispatch=dispatch, worker="late")


async def accepted_claims(handle: JobHandle) -> int:
    """How many claims history knows of."""
    history = await handle.fetch_history()
    return count(history, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED)


async def expect_refusal(handle: JobHandle, *args: Any) -> None:
    """The claim is refused, and history does not know of it.

    The task in which it was refused may be there: the server keeps it if the worker is slow.
    """
    before = await accepted_claims(handle)
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await handle.execute_update("claim", args=args)
    assert isinstance(caught.value.cause, ApplicationError)
    if args and isinstance(args[0], ClaimInput):
        assert caught.value.cause.type == CLAIM_REFUSED
    assert await accepted_claims(handle) == before


@pytest.mark.parametrize("dispatch", [-1, 0, 2, 2**40])
async def test_claim_of_an_attempt_that_is_not_scheduled_is_refused(
    stage: Stage, dispatch: int
) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        await expect_refusal(handle, claim_of(dispatch))
        assert (await stage.view(handle)).state is JobState.PENDING


@pytest.mark.parametrize(
    "args",
    [
        (),
        (None,),
        (1,),
        ("claim",),
        ({"dispatch": 1},),
        ({"worker": "w"},),
        ({"dispatch": "one", "worker": "w"},),
        ({"dispatch": 1, "worker": ""},),
        ({"dispatch": 1, "worker": "w" * 3000},),
        ({"dispatch": 1, "worker": "w"}, 2),
        (b"\x00",),
    ],
)
async def test_malformed_claim_is_refused_and_wedges_nothing(
    stage: Stage, args: tuple[Any, ...]
) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        await expect_refusal(handle, *args)
        await handle.signal("cancel")
        assert (await handle.result()).state is JobState.CANCELLED


async def test_claim_that_is_asked_again_is_one_claim(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        for _ in range(3):
            await handle.execute_update("claim", claim_of(1), id="claim-1")
        assert events_of(await stage.view(handle)) == ["START"]
        await expect_refusal(handle, claim_of(1))


async def test_late_claim_of_a_paused_and_of_a_resumed_job_is_refused(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        await handle.signal("pause")
        await stage.until(handle, JobState.PAUSED)
        await expect_refusal(handle, claim_of(1))
        await handle.signal("resume")
        await stage.until(handle, JobState.PENDING)
        await expect_refusal(handle, claim_of(1))
        await handle.execute_update("claim", claim_of(2))
        assert events_of(await stage.view(handle)) == ["PAUSE", "RESUME", "START"]


async def test_late_claim_while_the_next_attempt_is_waited_for_is_refused(stage: Stage) -> None:
    work = stage.work(fail_with(ErrorKind.RATE_LIMITED, retry_after_seconds=60))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PENDING, lambda v: len(v.transitions) == 2)
        await expect_refusal(handle, claim_of(1))
        assert "next attempt in " in ((await stage.view(handle)).waiting_for or "")


async def test_claim_of_a_running_job_by_another_worker_is_refused(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
        await expect_refusal(handle, claim_of(1))
        await expect_refusal(handle, claim_of(2))


async def test_claim_of_a_job_that_is_to_be_cancelled_is_refused(stage: Stage) -> None:
    """Both reach the workflow in one task: the cancel first."""
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
    await handle.signal("cancel")
    claim = asyncio.create_task(handle.execute_update("claim", claim_of(1)))
    async with stage.deciding():
        with pytest.raises((WorkflowUpdateFailedError, RPCError)):
            await claim
        assert (await handle.result()).state is JobState.CANCELLED
    assert events_of(await stage.view(handle)) == ["CANCEL"]


async def test_claim_of_a_finished_job_finds_nothing(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start()
        await handle.result()
        with pytest.raises(RPCError) as caught:
            await handle.execute_update("claim", claim_of(1))
    assert caught.value.status is RPCStatusCode.NOT_FOUND


async def test_job_that_was_cancelled_while_all_workers_were_down_never_starts(
    stage: Stage,
) -> None:
    work = stage.work(succeed)
    handles = await asyncio.gather(*(stage.start() for _ in range(50)))
    await asyncio.gather(*(handle.signal("cancel") for handle in handles))
    async with stage.working(work), stage.deciding():
        outcomes = await asyncio.gather(*(handle.result() for handle in handles))
    assert {outcome.state for outcome in outcomes} == {JobState.CANCELLED}
    assert work.inputs == []


async def test_queued_job_that_was_cancelled_while_all_workers_were_down_never_starts(
    stage: Stage,
) -> None:
    """Its attempt was scheduled already, and the activity worker comes back first."""
    work = stage.work(succeed)
    async with stage.deciding():
        handles = await asyncio.gather(*(stage.start() for _ in range(10)))
        await asyncio.gather(*(stage.until_decided(handle) for handle in handles))
    await asyncio.gather(*(handle.signal("cancel") for handle in handles))
    async with stage.working(work, slots=10), stage.deciding():
        outcomes = await asyncio.gather(*(handle.result() for handle in handles))
    assert {outcome.state for outcome in outcomes} == {JobState.CANCELLED}
    assert work.inputs == []


async def test_refused_claims_are_no_events(stage: Stage) -> None:
    released = asyncio.Event()
    async with stage.deciding(), stage.working(stage.work(when(released))):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING)
        for dispatch in range(5):
            await expect_refusal(handle, claim_of(dispatch))
        released.set()
        await handle.result()
    history = await handle.fetch_history()
    assert count(history, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED) == 1
