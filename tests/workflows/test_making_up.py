"""What the archiver makes up for: the callbacks of a job whose run was cut short."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from activities.artifacts import LocalArtifactStore
from tests.workflows.archive_visits import until_listed, visit
from tests.workflows.behaviours import succeed, work_until_stopped
from tests.workflows.receiver import FakeReceiver
from tests.workflows.stage import JobHandle, Stage, until
from workflows.callbacks import all_messages
from workflows.deliveries import Deliveries
from workflows.state_machine import JobState

URL = "https://example.com/hook"


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    """A store of this test's own."""
    return LocalArtifactStore(tmp_path)


async def visit_and_deliver(stage: Stage, store: LocalArtifactStore, handle: JobHandle) -> None:
    """One visit, and whatever deliveries there are by then come to their end."""
    await until_listed(stage.client, handle)
    queue = stage.task_queue
    assert await visit(stage.client, store, [handle], timedelta(0), task_queue=queue) == 1
    told = Deliveries(stage.client, task_queue=stage.task_queue)
    view = await stage.view(handle)

    async def are_delivered() -> bool:
        found = await told.of_job(view)
        return all(delivery.state == "DELIVERED" for delivery in found)

    await until(are_delivered)
    for message in all_messages(view):
        stage.handles.append(stage.client.get_workflow_handle(message.workflow_id))


async def test_terminated_job_is_told_of_by_the_archiver(
    stage: Stage, store: LocalArtifactStore
) -> None:
    receiver = FakeReceiver()
    work = stage.work(work_until_stopped)
    async with stage.deciding(receiver.send_callback), stage.working(work):
        handle = await stage.start(callback_url=URL, callback_events="all")
        await stage.until(handle, JobState.PROCESSING)
        await handle.terminate(reason="the rack is on fire")
        await visit_and_deliver(stage, store, handle)
    told = sorted(json.loads(got.body)["type"] for got in receiver.got)
    assert told == ["job.failed", "job.processing"]
    [end] = [json.loads(got.body)["data"] for got in receiver.got if "failed" in got.message_id]
    assert end["error"]["message"] == "terminated by an operator: the rack is on fire"
    assert end["transition"]["source"] == "operator"


async def test_job_that_told_of_itself_is_not_told_of_again(
    stage: Stage, store: LocalArtifactStore
) -> None:
    receiver = FakeReceiver()
    async with stage.deciding(receiver.send_callback), stage.working(stage.work(succeed)):
        handle = await stage.start(callback_url=URL, callback_events="all")
        await handle.result()
        await visit_and_deliver(stage, store, handle)
    ids = [got.message_id for got in receiver.got]
    assert len(ids) == len(set(ids)) == 2
