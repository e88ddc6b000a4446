"""A job whose image gets a copy without its label: two jobs, each with a life of its own."""

import asyncio

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.service import RPCError

from activities.errors import ErrorKind
from tests.workflows.behaviours import fail_with, succeed, when, work_until_stopped
from tests.workflows.pure import image_request
from tests.workflows.stage import Stage, events_of, until_any_has_moved
from workflows.chain import in_chain, removal_id, removal_input
from workflows.messages import ChainState, JobView
from workflows.names import job_id_of, workflow_id_for
from workflows.state_machine import JobState
from workflows.submission import start_job

REMOVE = {"watermark": "remove", "label_terms_accepted": True}


async def chain_of(stage: Stage, view: JobView) -> JobView:
    """The first job with what the second one adds."""
    return in_chain(view, await stage.reader.read(removal_id(view.id)))


async def test_successor_is_there_in_the_moment_of_success(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start(**REMOVE, priority=8, tenant="anne", labels={"a": "b"})
        view = await stage.until(handle, JobState.SUCCESS)
        assert view.status.successor_id == removal_id(view.id)
        successor = await stage.view(stage.successor(handle))
    request = successor.request
    assert request is not None
    assert view.status.result is not None
    assert (request.type, request.predecessor_id) == ("WATERMARK_REMOVAL", view.id)
    assert (request.tenant, request.priority, request.labels) == ("anne", 8, {"a": "b"})
    assert request.removal is not None
    assert request.removal.source == view.status.result.artifact
    assert (request.removal.asked_by, request.removal.asked_at) == ("api:anne", view.created_at)


async def test_chain_is_finalized_by_the_second_success(stage: Stage) -> None:
    removal = stage.work(succeed)
    async with stage.deciding(), stage.working(stage.work(succeed)), stage.removing(removal):
        handle = await stage.start(**REMOVE)
        await handle.result()
        successor = await stage.until(stage.successor(handle), JobState.SUCCESS)
    view = await stage.view(handle)
    assert (await chain_of(stage, view)).chain is ChainState.FINALIZED
    assert in_chain(successor, None).chain is ChainState.FINALIZED
    assert successor.status.successor_id is None
    assert events_of(successor) == ["START", "COMPLETE"]
    assert [work.predecessor_id for work in removal.inputs] == [view.id]
    assert view.status.result is not None
    assert removal.inputs[0].removal is not None
    assert removal.inputs[0].removal.source == view.status.result.artifact


async def test_chain_tells_how_far_it_is(stage: Stage) -> None:
    released = asyncio.Event()
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start(**REMOVE)
        view = await stage.until(handle, JobState.SUCCESS)
        assert (await chain_of(stage, view)).chain is ChainState.GENERATED
        async with stage.removing(stage.work(when(released))):
            await stage.until(stage.successor(handle), JobState.PROCESSING)
            assert (await chain_of(stage, view)).chain is ChainState.PROCESSING_WATERMARK
            released.set()
            await stage.until(stage.successor(handle), JobState.SUCCESS)


async def test_failed_removal_leaves_the_first_job_a_success(stage: Stage) -> None:
    removal = stage.work(fail_with(ErrorKind.LABEL_NOT_FOUND, "no label"))
    async with stage.deciding(), stage.working(stage.work(succeed)), stage.removing(removal):
        handle = await stage.start(**REMOVE)
        await handle.result()
        successor = await stage.until(stage.successor(handle), JobState.FAILED)
    assert successor.status.error is not None
    assert successor.status.error.kind == "LABEL_NOT_FOUND"
    assert len(removal.inputs) == 1
    view = await stage.view(handle)
    assert view.state is JobState.SUCCESS
    assert (await chain_of(stage, view)).chain is ChainState.REMOVAL_FAILED


async def test_removal_can_be_paused_resumed_and_cancelled(stage: Stage) -> None:
    async with (
        stage.deciding(),
        stage.working(stage.work(succeed)),
        stage.removing(stage.work(work_until_stopped)),
    ):
        handle = await stage.start(**REMOVE)
        await handle.result()
        successor = stage.successor(handle)
        await stage.until(successor, JobState.PROCESSING)
        await successor.signal("pause")
        await stage.until(successor, JobState.PAUSED)
        await successor.signal("resume")
        await stage.until(successor, JobState.PROCESSING)
        await successor.signal("cancel")
        await stage.until(successor, JobState.CANCELLED)
    view = await stage.view(handle)
    assert view.state is JobState.SUCCESS
    assert (await chain_of(stage, view)).chain is ChainState.REMOVAL_FAILED


@pytest.mark.parametrize("how", ["signal", "native"])
async def test_job_that_is_cancelled_has_no_successor(stage: Stage, how: str) -> None:
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start(**REMOVE)
        await stage.until(handle, JobState.PROCESSING)
        await (handle.signal("cancel") if how == "signal" else handle.cancel())
        view = await stage.until(handle, JobState.CANCELLED)
    assert view.status.successor_id is None
    with pytest.raises(RPCError, match="not found"):
        await stage.client.get_workflow_handle(workflow_id_for(removal_id(view.id))).describe()


async def test_native_cancel_around_success_loses_no_successor(stage: Stage) -> None:
    """Whichever comes first: SUCCESS has exactly one successor, CANCELLED has none."""
    removal = stage.work(succeed)
    handles = []
    async with stage.deciding(), stage.working(stage.work(succeed)), stage.removing(removal):
        for _ in range(12):
            handle = await stage.start(**REMOVE)
            handles.append(handle)
            asking = asyncio.create_task(handle.cancel())
            with_end = await asyncio.gather(handle.result(), asking, return_exceptions=True)
            assert not isinstance(with_end[0], WorkflowFailureError), with_end
        ends = [await stage.view(handle) for handle in handles]
        for handle, view in zip(handles, ends, strict=True):
            if view.state is JobState.SUCCESS:
                await stage.until(stage.successor(handle), JobState.SUCCESS)
            else:
                assert (view.state, view.status.successor_id) == (JobState.CANCELLED, None)
    done = [view.id for view in ends if view.state is JobState.SUCCESS]
    assert sorted(work.predecessor_id or "" for work in removal.inputs) == sorted(done)


async def test_no_kill_of_the_deciding_worker_loses_or_doubles_the_successor(stage: Stage) -> None:
    """The worker goes at once after the result is in, wherever the workflow is by then."""
    released, removal = asyncio.Event(), stage.work(succeed)
    async with stage.working(stage.work(when(released))), stage.removing(removal):
        async with stage.deciding():
            handles = [await stage.start(**REMOVE) for _ in range(5)]
            for handle in handles:
                await stage.until(handle, JobState.PROCESSING)
            released.set()
        for _ in range(3):
            async with stage.deciding():
                await until_any_has_moved(handles)
        async with stage.deciding():
            for handle in handles:
                await stage.until(handle, JobState.SUCCESS)
                await stage.until(stage.successor(handle), JobState.SUCCESS)
    ids = [job_id_of(handle.id) for handle in handles]
    assert {work.predecessor_id for work in removal.inputs} == set(ids)
    # A second run would begin to count its attempts anew. A second attempt is no fault: the fake
    # sends no heartbeats, and while it waits for a worker that is gone to grant its claim, it may
    # be taken for lost.
    dispatches = [(work.job_id, work.dispatch) for work in removal.inputs]
    assert len(set(dispatches)) == len(dispatches)


async def test_taken_id_of_a_successor_does_not_undo_success(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        first = await stage.start(**REMOVE)
        view = await stage.until(first, JobState.SUCCESS)
        taken = removal_id("taken")
        request = removal_input(view, "operator", view.created_at)
        stage.handles.append(
            await start_job(stage.client, taken, request, task_queue=stage.task_queue)
        )
        stage.successor(first)
        asked = image_request(engine=stage.engine, **REMOVE)
        second = await start_job(stage.client, "taken", asked, task_queue=stage.task_queue)
        stage.handles.append(second)
        after = await stage.until(second, JobState.SUCCESS)
    assert after.status.successor_id == taken


def test_id_of_a_removal_is_a_job_id_however_long_the_first_one_is() -> None:
    ids = [removal_id("a" * length) for length in (1, 92, 93, 100)]
    assert ids[0] == "a-removal"
    assert len(set(ids)) == 4
    assert all(job_id_of(workflow_id_for(one)) == one for one in ids)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"type": "WATERMARK_REMOVAL"}, "`removal` must be there"),
        ({"watermark": "remove"}, "label_terms_accepted"),
    ],
)
async def test_nobody_gets_a_copy_without_what_it_takes(
    stage: Stage, changes: dict[str, object], word: str
) -> None:
    asked = image_request().model_dump(mode="json") | changes
    async with stage.deciding():
        handle = await stage.start_raw(asked)
        view = await stage.until(handle, JobState.FAILED)
    assert view.status.error is not None
    assert view.status.error.kind == "INVALID_PARAMETERS"
    assert word in view.status.error.message


async def test_image_of_another_job_is_refused(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        first = await stage.start()
        view = await stage.until(first, JobState.SUCCESS)
        asked = removal_input(view, "operator", view.created_at).model_dump(mode="json")
        handle = await stage.start_raw(asked | {"predecessor_id": "someone-elses"})
        refused = await stage.until(handle, JobState.FAILED)
    assert refused.status.error is not None
    assert "predecessor_id" in refused.status.error.message
