"""Record histories of jobs and of a bulk, for the replay test to run every later workflow over.

    python -m tests.replay.record             record what is not there yet
    python -m tests.replay.record cancelled   the same, for this life only

To add a history, add a function to LIVES and record it. A history that is there is never recorded
again: it stands for the jobs that were running when it was made. Where the workflow must change
in a way that no longer replays, keep the old way under `workflow.patched`, and add a history of
the new one.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from activities.errors import ErrorKind
from devstack.temporal import DYNAMIC_CONFIG, executable
from tests.workflows.behaviours import (
    fail_with,
    fall_silent,
    fall_silent_in_an_outage,
    hang,
    one_after_another,
    succeed,
    when,
    work_until_stopped,
)
from tests.workflows.receiver import DELIVERED, FAILED, FakeReceiver
from tests.workflows.stage import JobHandle, Stage
from workflows.bulk_messages import BulkOrder
from workflows.bulk_reading import start_bulk
from workflows.callbacks import all_messages
from workflows.listing import JobFilter
from workflows.messages import JobView
from workflows.notes import ControlNote
from workflows.search_attributes import register_search_attributes
from workflows.state_machine import JobState

HISTORIES = Path(__file__).with_name("histories")
# Stands in each history as the name of client and worker, whoever records it.
IDENTITY = "recorder"

Life = Callable[[Stage], Awaitable[WorkflowHandle[Any, Any]]]


def _moves(view: JobView) -> bool:
    return view.status.progress is not None


async def _end(handle: JobHandle) -> JobHandle:
    with contextlib.suppress(WorkflowFailureError):
        await handle.result()
    return handle


async def success(stage: Stage) -> JobHandle:
    """The shortest life."""
    async with stage.deciding(), stage.working(stage.work(succeed)):
        return await _end(await stage.start())


async def retried(stage: Stage) -> JobHandle:
    """Fails twice, the second time with a `Retry-After`, and succeeds."""
    failures = [
        fail_with(ErrorKind.STORAGE),
        fail_with(ErrorKind.RATE_LIMITED, retry_after_seconds=0.5),
    ]
    work = stage.work(one_after_another([*failures, succeed]))
    async with stage.deciding(), stage.working(work):
        return await _end(await stage.start())


async def worker_lost(stage: Stage) -> JobHandle:
    """Its worker falls silent."""
    work = stage.work(one_after_another([fall_silent, succeed]))
    async with stage.deciding(), stage.working(work):
        return await _end(await stage.start())


async def told(stage: Stage) -> JobHandle:
    """Tells two receivers of it."""
    receiver = FakeReceiver()
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(succeed)):
        return await _end(
            await stage.start(
                callback_url="https://example.com/hook",
                callback_events="all",
                endpoint_events="final",
            )
        )


async def delivery(stage: Stage) -> WorkflowHandle[Any, Any]:
    """A message that arrives at the second attempt."""
    receiver = FakeReceiver([FAILED, DELIVERED])
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(succeed)):
        handle = await stage.start(callback_url="https://example.com/hook")
        await _end(handle)
        [message] = all_messages(await stage.view(handle))
        deliverer = stage.client.get_workflow_handle(message.workflow_id)
        await deliverer.result()
        return deliverer


async def lost_in_outage(stage: Stage) -> JobHandle:
    """Its worker can't be heard, which is not its worker's fault."""
    work = stage.work(one_after_another([fall_silent_in_an_outage, succeed]))
    async with stage.deciding(), stage.working(work):
        return await _end(await stage.start(max_attempts=1))


async def made_up_result(stage: Stage) -> JobHandle:
    """Somebody completes its attempt with an image of another job's."""
    work = stage.work(one_after_another([work_until_stopped, succeed]))
    sha256 = "0" * 64
    forged = {"key": f"jobs/y/{sha256}.png", "sha256": sha256, "media_type": "image/png"}
    async with stage.deciding(), stage.working(work):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, _moves)
        attempt = stage.client.get_async_activity_handle(
            workflow_id=handle.id, run_id=None, activity_id="attempt-1"
        )
        await attempt.complete(
            {"worker": "w", "artifact": forged | {"byte_size": 1, "width": 64, "height": 64}}
        )
        return await _end(handle)


async def paused_and_resumed(stage: Stage) -> JobHandle:
    """Is paused in the queue, and again while it is worked on."""
    work = stage.work(one_after_another([work_until_stopped, succeed]))
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        await handle.signal("pause", {"source": "api:anne", "message": "lunch"})
        await stage.until(handle, JobState.PAUSED)
        async with stage.working(work):
            await handle.signal("resume")
            await stage.until(handle, JobState.PROCESSING, _moves)
            await handle.signal("pause")
            await stage.until(handle, JobState.PAUSED)
            await handle.signal("resume")
            return await _end(handle)


async def cancelled(stage: Stage) -> JobHandle:
    """Is cancelled while it is worked on."""
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, _moves)
        await handle.signal("cancel", {"source": "api:anne"})
        return await _end(handle)


async def cancelled_natively(stage: Stage) -> JobHandle:
    """Is cancelled in the queue, with `temporal workflow cancel`."""
    async with stage.deciding():
        handle = await stage.start()
        await stage.until_decided(handle)
        await handle.cancel()
        return await _end(handle)


async def result_before_cancel(stage: Stage) -> JobHandle:
    """Its result is in when the cancel comes, and no workflow worker has seen either."""
    released = asyncio.Event()
    async with stage.working(stage.work(when(released))):
        async with stage.deciding():
            handle = await stage.start()
            await stage.until(handle, JobState.PROCESSING, _moves)
        released.set()
        await stage.until_no_attempt(handle)
        await handle.signal("cancel")
        async with stage.deciding():
            return await _end(handle)


async def handed_back(stage: Stage) -> JobHandle:
    """Its worker stops."""
    async with stage.deciding():
        async with stage.working(stage.work(work_until_stopped)):
            handle = await stage.start()
            await stage.until(handle, JobState.PROCESSING, _moves)
        async with stage.working(stage.work(succeed)):
            return await _end(handle)


async def failed(stage: Stage) -> JobHandle:
    """Fails for good."""
    work = stage.work(fail_with(ErrorKind.CONTENT_REJECTED))
    async with stage.deciding(), stage.working(work):
        return await _end(await stage.start())


async def unreadable(stage: Stage) -> JobHandle:
    """Was started with something else."""
    async with stage.deciding():
        return await _end(await stage.start_raw(17))


async def terminated(stage: Stage) -> JobHandle:
    """Is terminated while it is worked on."""
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start()
        await stage.until(handle, JobState.PROCESSING, _moves)
        await handle.terminate(reason="enough")
        return handle


async def extended(stage: Stage) -> JobHandle:
    """Still moves when its time runs out, and completes after that."""
    released = asyncio.Event()
    async with stage.deciding(), stage.working(stage.work(when(released))):
        handle = await stage.start(timeout_seconds=10)
        await stage.until(handle, JobState.PROCESSING, lambda view: bool(view.status.extensions))
        released.set()
        return await _end(handle)


async def timed_out(stage: Stage) -> JobHandle:
    """Hangs when its time runs out."""
    async with stage.deciding(), stage.working(stage.work(hang(idle_seconds=41))):
        return await _end(await stage.start(timeout_seconds=10))


async def amended(stage: Stage) -> JobHandle:
    """Gets another place in the queue, and another limit while it is worked on."""
    released = asyncio.Event()
    async with stage.deciding():
        handle = await stage.start(priority=2)
        await stage.until_decided(handle)
        await handle.signal("amend", {"priority": 8, "source": "api:anne", "message": "urgent"})
        await stage.until(handle, JobState.PENDING, lambda view: bool(view.status.amendments))
        async with stage.working(stage.work(when(released))):
            await stage.until(handle, JobState.PROCESSING, _moves)
            await handle.signal("amend", {"timeout_seconds": 7200})
            await stage.until(handle, JobState.PROCESSING, lambda v: v.timeout_seconds == 7200)
            released.set()
            return await _end(handle)


async def chained(stage: Stage) -> JobHandle:
    """Its label is to be removed: it ends once its successor is there."""
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start(watermark="remove", label_terms_accepted=True)
        stage.successor(handle)
        return await _end(handle)


async def removal(stage: Stage) -> JobHandle:
    """The successor."""
    async with (
        stage.deciding(),
        stage.working(stage.work(succeed)),
        stage.removing(stage.work(succeed)),
    ):
        handle = await stage.start(watermark="remove", label_terms_accepted=True)
        await _end(handle)
        return await _end(stage.successor(handle))


async def bulk(stage: Stage) -> WorkflowHandle[Any, Any]:
    """A bulk cancel of one job."""
    wanted = JobFilter(tenant="recorded")
    order = BulkOrder(action="cancel", filter=wanted, note=ControlNote(source="api:recorded"))
    async with stage.deciding():
        await stage.start(tenant="recorded")
        handle = await start_bulk(stage.client, uuid4().hex, order, task_queue=stage.task_queue)
        await handle.result()
    return handle


LIVES: tuple[Life, ...] = (
    success,
    retried,
    worker_lost,
    lost_in_outage,
    made_up_result,
    paused_and_resumed,
    cancelled,
    cancelled_natively,
    result_before_cancel,
    handed_back,
    failed,
    unreadable,
    terminated,
    extended,
    timed_out,
    amended,
    chained,
    removal,
    told,
    delivery,
    bulk,
)


def _without_traces(part: Any) -> Any:
    """Tracebacks name the files of the machine, and no decision depends on them."""
    if isinstance(part, list):
        return [_without_traces(item) for item in part]
    if isinstance(part, dict):
        return {key: _without_traces(part[key]) for key in part if key != "stackTrace"}
    return part


async def record(client: Client, name: str, life: Life) -> None:
    """Let one job live, and keep its history unless there is one of this name."""
    target = HISTORIES / f"{name}.json"
    if not target.exists():
        handle = await life(Stage(client))
        history = json.loads((await handle.fetch_history()).to_json())
        target.write_text(json.dumps(_without_traces(history), indent=1) + "\n")
        sys.stdout.write(f"recorded {target.name}\n")


async def main(names: list[str]) -> None:
    """Record on a server of its own."""
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        identity=IDENTITY,
        dev_server_existing_path=executable(),
        dev_server_log_level="error",
        dev_server_extra_args=[
            word for value in DYNAMIC_CONFIG for word in ("--dynamic-config-value", value)
        ],
    ) as environment:
        await register_search_attributes(environment.client)
        for life in LIVES:
            name = life.__name__
            if not names or name in names:
                await record(environment.client, name, life)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
