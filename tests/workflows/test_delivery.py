"""The delivery of one message: attempts, intervals, ends, and sending it again."""

import asyncio
import itertools
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import WorkflowEnvironment

from activities.callbacks.models import CallbackAttempt, SendCallbackInput
from activities.errors import ErrorKind, WorkError
from tests.workflows.receiver import DELIVERED, FAILED, GONE, FakeReceiver, Gate, answer
from tests.workflows.stage import Stage, replay, until
from workflows import options
from workflows.callbacks import Message
from workflows.delivery import (
    CALLBACK_WORKFLOW,
    SIGNAL_REDELIVER,
    DeliveryStatus,
    attempts_of,
    delivery_options,
)

Handle = WorkflowHandle[object, DeliveryStatus]


def message() -> Message:
    """A message of a job that there is not."""
    job_id = uuid4().hex
    return Message(
        id=f"{job_id}.2-success",
        job_id=job_id,
        tenant="anne",
        sequence=2,
        type="job.success",
        receiver="url",
        url="https://example.com/hook",
        body='{"type":"job.success"}',
    )


async def start(client: Client, stage: Stage) -> Handle:
    """Start a delivery on the stage's queue."""
    sent = message()
    handle: Handle = await client.start_workflow(
        CALLBACK_WORKFLOW,
        sent,
        task_queue=stage.task_queue,
        result_type=DeliveryStatus,
        **delivery_options(sent),
    )
    stage.handles.append(handle)
    return handle


async def told_by(handle: Handle) -> tuple[DeliveryStatus, list[CallbackAttempt]]:
    """What its memo tells."""
    memo = await (await handle.describe()).memo()
    return DeliveryStatus.model_validate(memo["status"]), attempts_of(memo)


async def until_waiting(handle: Handle, attempts: int) -> DeliveryStatus:
    """Wait until so many attempts have failed."""

    async def has_failed() -> bool:
        return len((await told_by(handle))[1]) >= attempts

    await until(has_failed)
    return (await told_by(handle))[0]


async def test_message_is_delivered_once_and_its_memo_tells_so(stage: Stage) -> None:
    receiver = FakeReceiver()
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        assert (await handle.result()).state == "DELIVERED"
    [got] = receiver.got
    assert (got.tenant, got.url) == ("anne", "https://example.com/hook")
    assert handle.id == f"callback-{got.message_id}-url"
    assert got.body == '{"type":"job.success"}'
    status, [attempt] = await told_by(handle)
    assert (status.state, status.next_attempt_at) == ("DELIVERED", None)
    assert (attempt.outcome, attempt.status_code) == ("delivered", 204)


async def test_receiver_that_wants_nothing_more_gets_nothing_more(stage: Stage) -> None:
    receiver = FakeReceiver([GONE])
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        assert (await handle.result()).state == "STOPPED"
    assert len(receiver.got) == 1


async def test_failed_attempt_is_followed_by_another_with_the_same_message(stage: Stage) -> None:
    receiver = FakeReceiver([FAILED, DELIVERED])
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        assert (await handle.result()).state == "DELIVERED"
    assert receiver.got[0] == receiver.got[1]
    _, attempts = await told_by(handle)
    assert [attempt.outcome for attempt in attempts] == ["failed", "delivered"]


async def gaps_until_the_end(skipping: WorkflowEnvironment, receiver: FakeReceiver) -> list[float]:
    """The seconds between the attempts of a delivery, by the workflow's own clock."""
    stage = Stage(skipping.client)
    async with stage.deciding(receiver.send_callback):
        handle = await start(skipping.client, stage)
        async with asyncio.timeout(60):
            with pytest.raises(WorkflowFailureError) as ended:
                await handle.result()
    assert isinstance(ended.value.cause, ApplicationError)
    assert ended.value.cause.type == "CALLBACK_FAILED"
    assert (await told_by(handle))[0].state == "FAILED"
    times: list[datetime] = []
    history = await handle.fetch_history()
    for event in history.events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            times.append(event.event_time.ToDatetime())
    await replay(history)
    return [(b - a).total_seconds() for a, b in itertools.pairwise(times)]


async def test_receiver_that_is_down_is_tried_for_three_days_at_growing_intervals(
    skipping: WorkflowEnvironment,
) -> None:
    receiver = FakeReceiver([FAILED])
    gaps = await gaps_until_the_end(skipping, receiver)
    planned = [interval.total_seconds() for interval in options.CALLBACK_INTERVALS]
    assert len(gaps) == len(planned)
    for gap, plan in zip(gaps, planned, strict=True):
        assert 0.9 * plan <= gap <= 1.1 * plan + 5
    assert planned == sorted(planned)
    assert timedelta(hours=70) < sum(options.CALLBACK_INTERVALS, timedelta(0)) < timedelta(hours=74)


async def test_retry_after_puts_the_next_attempt_off_but_not_for_ever(
    skipping: WorkflowEnvironment,
) -> None:
    asked = [answer("failed", 429, seconds) for seconds in (1000.0, 1e9, 0.1)]
    gaps = await gaps_until_the_end(skipping, FakeReceiver([*asked, FAILED]))
    assert 1000 <= gaps[0] <= 1010
    assert 86_400 <= gaps[1] <= 86_410
    # The planned interval, which is longer.
    assert gaps[2] >= 0.9 * options.CALLBACK_INTERVALS[2].total_seconds()


async def test_waiting_delivery_is_made_at_once_when_it_is_asked_for(stage: Stage) -> None:
    receiver = FakeReceiver([FAILED, FAILED, DELIVERED])
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        status = await until_waiting(handle, 2)
        assert status.state == "PENDING"
        assert status.next_attempt_at is not None
        # Half a minute from now, were it not asked for; and whatever the signal carries counts.
        await handle.signal(SIGNAL_REDELIVER, args=["now", "please"])
        assert (await handle.result()).state == "DELIVERED"
    _, attempts = await told_by(handle)
    assert len(attempts) == 3
    waited = attempts[2].at - attempts[1].at
    assert waited < options.CALLBACK_INTERVALS[1] * 0.9


async def test_asking_again_while_it_is_sent_sends_it_once_more(stage: Stage) -> None:
    receiver = FakeReceiver(gate=Gate())
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        await receiver.gate.entered.wait()
        await handle.signal(SIGNAL_REDELIVER)
        await stage.until_decided(handle)
        receiver.gate.open.set()
        assert (await handle.result()).state == "DELIVERED"
    assert len(receiver.got) == 2


async def test_broken_signal_counts_too(stage: Stage) -> None:
    receiver = FakeReceiver([FAILED, FAILED, DELIVERED])
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        await until_waiting(handle, 2)
        broken = Payload(metadata={"encoding": b"weird/x"}, data=b"now")
        await handle.signal(SIGNAL_REDELIVER, RawValue(broken))
        assert (await handle.result()).state == "DELIVERED"


async def test_delivery_that_is_asked_for_for_ever_goes_on_in_run_after_run(stage: Stage) -> None:
    asked_for = options.MAX_CALLBACK_ATTEMPTS + 5

    class Insisting(FakeReceiver):
        """Asks for another delivery during each, and then takes it."""

        @activity.defn
        async def send_callback(self, input: SendCallbackInput) -> CallbackAttempt:
            if len(self.got) < asked_for:
                own = activity.client().get_workflow_handle(activity.info().workflow_id or "")
                await own.signal(SIGNAL_REDELIVER)
                self._answers = [FAILED, FAILED]
            else:
                self._answers = [DELIVERED]
            return await super().send_callback(input)

    receiver = Insisting()
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        assert (await handle.result()).state == "DELIVERED"
    assert len(receiver.got) == asked_for + 1
    last = stage.client.get_workflow_handle(handle.id, result_type=DeliveryStatus)
    stage.handles.append(last)
    status, attempts = await told_by(last)
    assert status.state == "DELIVERED"
    # Its own, and not those of the run before once more.
    assert len(attempts) == 6


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_cancel_of_an_operator_ends_a_delivery_that_waits_or_is_sent(
    stage: Stage, is_waiting: bool
) -> None:
    receiver = FakeReceiver([FAILED], None if is_waiting else Gate())
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        await receiver.gate.entered.wait()
        if is_waiting:
            await until_waiting(handle, 1)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as ended:
            await handle.result()
        receiver.gate.open.set()
    assert isinstance(ended.value.cause, CancelledError)
    _, attempts = await told_by(handle)
    assert [attempt.outcome for attempt in attempts] == ["failed"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (RuntimeError("a fault of our own"), "whether it arrived is not known"),
        (WorkError(ErrorKind.STORAGE, "a fault of our own"), "nothing was sent"),
    ],
)
async def test_attempt_that_is_lost_is_an_attempt_that_failed(
    stage: Stage, fault: Exception, words: str
) -> None:
    class Crashing(FakeReceiver):
        """Fails as an activity the first time."""

        @activity.defn
        async def send_callback(self, input: SendCallbackInput) -> CallbackAttempt:
            attempt = await super().send_callback(input)
            if len(self.got) == 1:
                raise fault
            return attempt

    receiver = Crashing()
    async with stage.deciding(receiver.send_callback):
        handle = await start(stage.client, stage)
        assert (await handle.result()).state == "DELIVERED"
    _, [lost, _] = await told_by(handle)
    assert lost.outcome == "failed"
    assert words in lost.message
    assert "fault of our own" not in lost.message
