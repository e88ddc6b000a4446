"""Cancel, pause and resume on a real server, by signal, by native cancel, and by the CLI."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import RawValue

from activities.errors import ErrorKind
from tests.workflows.behaviours import (
    checkpoint_of,
    fail_with,
    one_after_another,
    stop_for_pause,
    succeed,
    when,
    work_until_stopped,
)
from tests.workflows.stage import Stage, events_of
from workflows.messages import JobView
from workflows.state_machine import JobState

NOTE = {"source": "api:anne", "message": "wrong prompt"}


def has_progress(view: JobView) -> bool:
    """The attempt has told something."""
    return view.status.progress is not None


def is_to_be_paused(view: JobView) -> bool:
    """The wish is known and not yet carried out."""
    return view.status.pending_request == "pause"


def raw(encoding: bytes, content: bytes) -> RawValue:
    """A payload as no client of ours would send it."""
    return RawValue(Payload(metadata={"encoding": encoding}, data=content))


@pytest.mark.parametrize(
    ("args", "source", "message"),
    [
        ([], "operator", "cancelled on request"),
        ([NOTE], "api:anne", "wrong prompt"),
        ([NOTE, 2, "three"], "api:anne", "wrong prompt"),
        ([{}], "operator", "cancelled on request"),
        ([None], "operator", "could not be read"),
        ([17], "operator", "could not be read"),
        (["now!"], "operator", "could not be read"),
        ([[1, 2]], "operator", "could not be read"),
        ([{"source": ["x"]}], "operator", "could not be read"),
        ([{"message": "x" * 100_000}], "operator", "could not be read"),
        ([b"\x00\xff"], "operator", "could not be read"),
        ([raw(b"binary/encrypted", b"?")], "operator", "could not be read"),
        ([raw(b"json/plain", b'{"message": "\\ud800"}')], "operator", "could not be read"),
        ([raw(b"json/plain", b"{")], "operator", "could not be read"),
    ],
)
async def test_cancel_is_heard_whatever_comes_with_it(
    stage: Stage, args: list[Any], source: str, message: str
) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await handle.signal("cancel", args=args)
        assert (await handle.result()).state is JobState.CANCELLED
    end = (await stage.view(handle)).transitions[-1]
    assert (end.event, end.source) == ("CANCEL", source)
    assert message in end.message


async def test_pause_and_resume_are_heard_when_nobody_can_decode_their_notes(stage: Stage) -> None:
    unknown = raw(b"binary/encrypted", b"?")
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start(start_at=datetime.now(UTC) + timedelta(seconds=2))
        await handle.signal("pause", unknown)
        await stage.until(handle, JobState.PAUSED)
        await handle.signal("resume", unknown)
        assert (await handle.result()).state is JobState.SUCCESS


async def test_signals_are_listed_by_name_for_people(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        told = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    names = {signal.name for signal in told.definition.signal_definitions}
    assert {"cancel", "pause", "resume"} <= names


@pytest.mark.parametrize("name", ["stop", "Cancel", "cancel ", "💥", "x" * 900])
async def test_unknown_signal_changes_nothing_and_is_told(stage: Stage, name: str) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await handle.signal(name, args=[1, 2, 3])
        details = await stage.cli("workflow", "metadata", "--workflow-id", handle.id)
        assert "there is no signal" in details
        assert (await stage.view(handle)).state is JobState.PENDING
        await handle.signal("cancel")
        await handle.result()


async def test_native_cancel_of_a_queued_job(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await handle.cancel()
        assert (await handle.result()).state is JobState.CANCELLED
    await expect_native_cancel(stage, handle, ["CANCEL"])


async def test_native_cancel_of_a_running_job_stops_its_attempt(stage: Stage) -> None:
    work = stage.work(work_until_stopped)
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, has_progress)
        await handle.cancel()
        assert (await handle.result()).state is JobState.CANCELLED
    await expect_native_cancel(stage, handle, ["START", "CANCEL"])


async def test_native_cancel_of_a_paused_job(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await handle.signal("pause")
        await stage.until(handle, JobState.PAUSED)
        await handle.cancel()
        assert (await handle.result()).state is JobState.CANCELLED
    await expect_native_cancel(stage, handle, ["PAUSE", "CANCEL"])


async def expect_native_cancel(stage: Stage, handle: Any, events: list[str]) -> None:
    """The job is CANCELLED by the operator, and its run completed."""
    view = await stage.view(handle)
    assert events_of(view) == events
    assert view.transitions[-1].source == "operator"
    assert view.transitions[-1].message == "cancelled with `temporal workflow cancel`"
    assert (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED


async def test_native_cancel_of_a_finished_job_changes_nothing(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start()
        await handle.result()
        before = await stage.view(handle)
        await handle.cancel()
    assert await stage.view(handle) == before


async def test_every_kind_of_cancel_at_once_is_one_cancel(stage: Stage) -> None:
    async with stage.working(stage.work(work_until_stopped)):
        async with stage.deciding():
            handle = await stage.start()
            await stage.until(handle, JobState.PROCESSING, has_progress)
        for name in ("pause", "resume", "pause", "cancel", "cancel", "resume", "typo"):
            await handle.signal(name)
        await handle.cancel()
        async with stage.deciding():
            assert (await handle.result()).state is JobState.CANCELLED
    assert events_of(await stage.view(handle)) == ["START", "CANCEL"]


async def test_result_that_is_already_in_beats_cancel_and_pause(stage: Stage) -> None:
    released = asyncio.Event()
    work = stage.work(when(released))
    async with stage.working(work):
        async with stage.deciding():
            handle = await stage.start()
            await stage.until(handle, JobState.PROCESSING, has_progress)
        released.set()
        await stage.until_no_attempt(handle)
        await handle.signal("pause")
        await handle.signal("cancel")
        await handle.cancel()
        async with stage.deciding():
            assert (await handle.result()).state is JobState.SUCCESS
    assert events_of(await stage.view(handle)) == ["START", "COMPLETE"]


async def test_pause_waits_for_the_checkpoint_and_resume_goes_on_from_it(stage: Stage) -> None:
    work = stage.work(one_after_another([work_until_stopped, succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, has_progress)
        await handle.signal("pause", NOTE)
        view = await stage.until(handle, JobState.PAUSED)
        assert view.status.pending_request is None
        assert view.waiting_for == "paused until it is resumed"
        await handle.signal("resume", {"source": "api:ben"})
        await handle.result()
    view = await stage.view(handle)
    assert events_of(view) == ["START", "PAUSE", "RESUME", "START", "COMPLETE"]
    assert [t.source for t in view.transitions[1:3]] == ["api:anne", "api:ben"]
    first, second = work.inputs
    assert (second.dispatch, second.checkpoint) == (2, checkpoint_of(first, 1))
    assert view.status.attempt == 1


async def test_pause_shows_as_a_wish_until_the_work_stops_and_completion_wins(
    stage: Stage,
) -> None:
    released = asyncio.Event()
    async with stage.deciding(), stage.working(stage.work(when(released))):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, has_progress)
        await handle.signal("pause")
        await stage.until(handle, JobState.PROCESSING, is_to_be_paused)
        released.set()
        await handle.result()
    view = await stage.view(handle)
    assert events_of(view) == ["START", "COMPLETE"]
    assert view.status.pending_request is None


async def test_resume_that_comes_while_the_work_stops_follows_the_pause(stage: Stage) -> None:
    released = asyncio.Event()
    work = stage.work(one_after_another([when(released, then=stop_for_pause), succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, has_progress)
        await handle.signal("pause")
        await stage.until(handle, JobState.PROCESSING, is_to_be_paused)
        await handle.signal("resume")
        released.set()
        await handle.result()
    assert events_of(await stage.view(handle)) == ["START", "PAUSE", "RESUME", "START", "COMPLETE"]


async def test_pause_and_resume_that_come_together_disturb_nothing(stage: Stage) -> None:
    released = asyncio.Event()
    async with stage.working(stage.work(when(released))):
        async with stage.deciding():
            handle = await stage.start()
            await stage.until(handle, JobState.PROCESSING, has_progress)
        await handle.signal("pause")
        await handle.signal("resume")
        async with stage.deciding():
            await stage.until_decided(handle)
            released.set()
            await handle.result()
    assert events_of(await stage.view(handle)) == ["START", "COMPLETE"]


async def test_cancel_while_the_work_stops_for_a_pause_does_not_wait_for_it(stage: Stage) -> None:
    released = asyncio.Event()
    async with stage.deciding(), stage.working(stage.work(when(released))):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, has_progress)
        await handle.signal("pause")
        await handle.signal("cancel")
        assert (await handle.result()).state is JobState.CANCELLED
        released.set()
    assert events_of(await stage.view(handle)) == ["START", "CANCEL"]


async def test_queued_job_is_paused_at_once_and_resumed(stage: Stage) -> None:
    work = stage.work(succeed)
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        await handle.signal("pause")
        await stage.until(handle, JobState.PAUSED)
        async with stage.working(work):
            await handle.signal("resume")
            await handle.result()
    assert events_of(await stage.view(handle)) == ["PAUSE", "RESUME", "START", "COMPLETE"]
    assert [task.dispatch for task in work.inputs] == [2]


async def test_pause_of_the_work_activity_pauses_the_job(stage: Stage) -> None:
    work = stage.work(one_after_another([work_until_stopped, succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, has_progress)
        target = ("--workflow-id", handle.id, "--activity-id", "attempt-1")
        await stage.cli("activity", "pause", *target)
        view = await stage.until(handle, JobState.PAUSED)
        assert view.transitions[-1].source == "operator"
        assert view.transitions[-1].message == "paused with `temporal activity pause`"
        await handle.signal("resume")
        await handle.result()
    assert work.inputs[1].checkpoint == checkpoint_of(work.inputs[0], 1)


async def test_job_that_fails_while_it_is_to_be_paused_is_paused_before_its_next_attempt(
    stage: Stage,
) -> None:
    released = asyncio.Event()
    work = stage.work(when(released, then=fail_with(ErrorKind.STORAGE)))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, has_progress)
        await handle.signal("pause")
        await stage.until(handle, JobState.PROCESSING, is_to_be_paused)
        released.set()
        await stage.until(handle, JobState.PAUSED)
    assert events_of(await stage.view(handle)) == ["START", "RETRY", "PAUSE"]
