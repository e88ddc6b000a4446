"""Telling a job's receivers from its workflow: nothing is lost, and the job never waits."""

import json

import pytest
from temporalio.api.enums.v1 import EventType

from activities.errors import ErrorKind
from tests.workflows.behaviours import fail_with, succeed, work_until_stopped
from tests.workflows.receiver import FAILED, FakeReceiver, Gate
from tests.workflows.stage import Stage, count, events_of, until
from workflows.callbacks import all_messages
from workflows.deliveries import Deliveries, Delivery
from workflows.messages import JobView
from workflows.state_machine import JobState

URL = "https://example.com/hook"
REMOVE = {"watermark": "remove", "label_terms_accepted": True}


def types(receiver: FakeReceiver) -> list[str]:
    """What was sent."""
    return [json.loads(got.body)["type"] for got in receiver.got]


async def deliveries(stage: Stage, view: JobView) -> list[Delivery]:
    """All deliveries of a job, once visibility knows them."""
    found: list[Delivery] = []

    async def are_known() -> bool:
        found[:] = await Deliveries(stage.client, task_queue=stage.task_queue).of_job(view)
        return all(delivery.state is not None for delivery in found)

    await until(are_known)
    for delivery in found:
        stage.handles.append(stage.client.get_workflow_handle(delivery.message.workflow_id))
    return found


async def until_delivered(stage: Stage, view: JobView) -> None:
    """Wait until every message of the job has arrived."""

    async def are_delivered() -> bool:
        found = await Deliveries(stage.client, task_queue=stage.task_queue).of_job(view)
        return all(delivery.state == "DELIVERED" for delivery in found)

    await until(are_delivered)


async def test_success_is_told_once_it_can_be_read(stage: Stage) -> None:
    receiver = FakeReceiver()
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(succeed)):
        handle = await stage.start(callback_url=URL, tenant="anne")
        await handle.result()
        view = await stage.view(handle)
        await until_delivered(stage, view)
    [delivery] = await deliveries(stage, view)
    [got] = receiver.got
    assert (got.message_id, got.tenant, got.url) == (delivery.message.id, "anne", URL)
    assert got.body == delivery.message.body
    assert delivery.attempts[0].at >= view.updated_at


async def test_every_transition_is_told_if_all_was_asked_for(stage: Stage) -> None:
    receiver = FakeReceiver()
    work = stage.work(work_until_stopped)
    async with stage.deciding(receiver.send_callback), stage.working(work):
        handle = await stage.start(callback_url=URL, callback_events="all")
        await stage.until(handle, JobState.PROCESSING)
        await handle.signal("pause")
        await stage.until(handle, JobState.PAUSED)
        await handle.signal("cancel")
        view = await stage.until(handle, JobState.CANCELLED)
        await until_delivered(stage, view)
    assert sorted(types(receiver)) == ["job.cancelled", "job.paused", "job.processing"]
    sent = {(got.message_id, got.body) for got in receiver.got}
    assert sent == {(message.id, message.body) for message in all_messages(view)}
    await deliveries(stage, view)


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
async def test_other_ends_are_told_too(stage: Stage, state: str) -> None:
    receiver = FakeReceiver()
    ends = {"FAILED": fail_with(ErrorKind.CONTENT_REJECTED), "CANCELLED": work_until_stopped}
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(ends[state])):
        handle = await stage.start(endpoint_events="final")
        if state == "CANCELLED":
            await stage.until(handle, JobState.PROCESSING)
            await handle.cancel()
        view = await stage.until(handle, JobState(state))
        await until_delivered(stage, view)
    assert types(receiver) == [f"job.{state.lower()}"]
    assert receiver.got[0].url is None
    await deliveries(stage, view)


async def test_receiver_that_never_answers_holds_up_no_job(stage: Stage) -> None:
    receiver = FakeReceiver(gate=Gate())
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(succeed)):
        handle = await stage.start(callback_url=URL, callback_events="all")
        await handle.result()
        await receiver.gate.entered.wait()
        view = await stage.view(handle)
        assert (view.state, view.is_running) == (JobState.SUCCESS, False)
        receiver.gate.open.set()
        await until_delivered(stage, view)
    await deliveries(stage, view)


async def test_failed_deliveries_leave_the_job_as_it_is(stage: Stage) -> None:
    receiver = FakeReceiver([FAILED])
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(succeed)):
        handle = await stage.start(callback_url=URL)
        await handle.result()
        view = await stage.view(handle)

        async def has_failed() -> bool:
            [delivery] = await deliveries(stage, view)
            return len(delivery.attempts) >= 1

        await until(has_failed)
    [delivery] = await deliveries(stage, view)
    assert (delivery.state, view.state) == ("PENDING", JobState.SUCCESS)
    assert delivery.next_attempt_at is not None
    assert events_of(view) == ["START", "COMPLETE"]


async def test_both_jobs_of_a_chain_are_told_of(stage: Stage) -> None:
    receiver, removal = FakeReceiver(), stage.work(succeed)
    async with (
        stage.deciding(receiver.send_callback),
        stage.working(stage.work(succeed)),
        stage.removing(removal),
    ):
        handle = await stage.start(callback_url=URL, **REMOVE)
        await handle.result()
        first = await stage.view(handle)
        second = await stage.until(stage.successor(handle), JobState.SUCCESS)
        await until_delivered(stage, first)
        await until_delivered(stage, second)
    told = [json.loads(got.body)["data"] for got in receiver.got]
    assert {(job["id"], job["type"]) for job in told} == {
        (first.id, "TEXT_TO_IMAGE"),
        (second.id, "WATERMARK_REMOVAL"),
    }
    [of_first] = [job for job in told if job["id"] == first.id]
    assert of_first["successor_id"] == second.id
    for view in (first, second):
        await deliveries(stage, view)


async def test_job_without_receivers_pays_nothing(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start()
        await handle.result()
    started = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED
    assert count(await handle.fetch_history(), started) == 0


async def test_message_can_be_sent_again_after_its_delivery_is_over(stage: Stage) -> None:
    receiver = FakeReceiver()
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(succeed)):
        handle = await stage.start(callback_url=URL)
        await handle.result()
        view = await stage.view(handle)
        await until_delivered(stage, view)
        [delivery] = await deliveries(stage, view)
        told = Deliveries(stage.client, task_queue=stage.task_queue)
        await told.send_again(delivery.message)

        async def is_sent_twice() -> bool:
            [again] = await told.of_job(view)
            return again.state == "DELIVERED" and len(again.attempts) == 2

        await until(is_sent_twice)
    assert receiver.got[0] == receiver.got[1]
    assert len(receiver.got) == 2


async def test_attempts_of_a_delivery_that_an_operator_resets_are_told_once_each(
    stage: Stage,
) -> None:
    receiver = FakeReceiver()
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(succeed)):
        handle = await stage.start(callback_url=URL)
        view = await stage.until(handle, JobState.SUCCESS)
        await until_delivered(stage, view)
        [delivery] = all_messages(view)
        await stage.cli(
            *("workflow", "reset", "--workflow-id", delivery.workflow_id),
            *("--type", "LastWorkflowTask", "--reason", "a test"),
        )

        async def are_both_known() -> bool:
            query = f"WorkflowId = '{delivery.workflow_id}' AND ExecutionStatus != 'Running'"
            return (await stage.client.count_workflows(query)).count == 2

        await until(are_both_known)
    [told] = await deliveries(stage, view)
    assert len(told.attempts) == len(receiver.got) == 1
