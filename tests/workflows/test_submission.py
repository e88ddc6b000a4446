"""Starting jobs: one job per id, and the order in which a scarce worker gets them."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.models import WorkInput, WorkResult
from tests.workflows.behaviours import succeed
from tests.workflows.pure import image_request
from tests.workflows.stage import JobHandle, Stage
from workflows.messages import ImageJobInput
from workflows.names import workflow_id_for
from workflows.starting import priority_key, priority_of
from workflows.state_machine import JobState
from workflows.submission import start_job


async def start_as(stage: Stage, job_id: str, **fields: object) -> JobHandle:
    """Start a job under a given id."""
    request = image_request(**{"engine": stage.engine} | fields)
    handle = await start_job(stage.client, job_id, request, task_queue=stage.task_queue)
    stage.handles.append(handle)
    return handle


async def test_second_job_of_an_id_is_refused_and_the_first_is_untouched(stage: Stage) -> None:
    job_id = uuid4().hex
    handle = await start_as(stage, job_id, priority=3)
    with pytest.raises(WorkflowAlreadyStartedError):
        await start_as(stage, job_id, priority=4)
    request = (await stage.view(handle)).request
    assert request is not None
    assert request.priority == 3


async def test_id_of_a_finished_job_is_taken_for_good(stage: Stage) -> None:
    job_id = uuid4().hex
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await start_as(stage, job_id)
        await handle.result()
    with pytest.raises(WorkflowAlreadyStartedError):
        await start_as(stage, job_id)
    assert (await stage.view(handle)).state is JobState.SUCCESS


async def test_of_many_that_start_the_same_job_at_once_one_does(stage: Stage) -> None:
    job_id = uuid4().hex
    attempts = await asyncio.gather(
        *(start_as(stage, job_id) for _ in range(10)), return_exceptions=True
    )
    refused = [attempt for attempt in attempts if isinstance(attempt, WorkflowAlreadyStartedError)]
    assert len(refused) == 9


async def served_order(stage: Stage, handles: list[JobHandle]) -> list[str]:
    """Let one slot work on all jobs, once all are queued; the ids in the order they were served."""
    order: list[str] = []

    async def note(input: WorkInput) -> WorkResult:
        order.append(workflow_id_for(input.job_id))
        return await succeed(input)

    async with stage.deciding():
        await asyncio.gather(*(stage.until_decided(handle) for handle in handles))
        async with stage.working(stage.work(note), slots=1):
            await asyncio.gather(*(handle.result() for handle in handles))
    return order


async def test_ten_priorities_are_served_in_their_exact_order(stage: Stage) -> None:
    priorities = [*range(10), *range(10)]
    random.Random(4).shuffle(priorities)
    jobs = {(await stage.start(priority=priority)).id: priority for priority in priorities}
    order = await served_order(stage, stage.handles)
    assert [jobs[workflow_id] for workflow_id in order] == sorted(priorities, reverse=True)


async def test_jobs_of_one_priority_are_served_first_come_first_served(stage: Stage) -> None:
    async with stage.deciding():
        for _ in range(10):
            await stage.until_decided(await stage.start())
    order = await served_order(stage, stage.handles)
    assert order == [handle.id for handle in stage.handles]


async def test_tenant_with_many_jobs_does_not_hold_up_the_others(stage: Stage) -> None:
    tenants: dict[str, str] = {}
    for tenant in (*["many"] * 15, *["few"] * 3):
        handle = await stage.start(tenant=tenant)
        tenants[handle.id] = tenant
    order = [tenants[workflow_id] for workflow_id in await served_order(stage, stage.handles)]
    assert max(index for index, tenant in enumerate(order) if tenant == "few") < 10


def test_every_priority_has_a_key_of_its_own() -> None:
    assert [priority_key(priority) for priority in range(10)] == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert [priority_of(priority_key(priority)) for priority in range(10)] == list(range(10))


@pytest.mark.parametrize(
    "fields",
    [
        {"tenant": "t" * 64, "engine": "e" * 40, "labels": {"k" * 63: "v" * 255}},
        {"start_at": datetime(2200, 12, 31, tzinfo=UTC)},
        {"start_at": datetime.now(UTC) - timedelta(days=1)},
        {"timeout_seconds": 86_400, "queue_timeout_seconds": 30 * 86_400, "max_attempts": 10},
    ],
)
async def test_extreme_request_is_accepted_by_the_server(
    stage: Stage, fields: dict[str, object]
) -> None:
    request = ImageJobInput.model_validate(image_request().model_dump() | fields)
    handle = await start_job(stage.client, "0" + uuid4().hex, request, task_queue=stage.task_queue)
    stage.handles.append(handle)
    assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    assert (await stage.view(handle)).request == request
