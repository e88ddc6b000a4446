"""Bulks whose workflow runs and whose work nobody does, or somebody by hand."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.servers import temporal_server
from workflows.bulk import BulkWorkflow
from workflows.bulk_messages import CARRY_OUT_BULK, CarryOutInput, bulk_workflow_id
from workflows.names import WORKFLOW_TASK_QUEUE


@pytest.fixture
async def own() -> AsyncIterator[Client]:
    """A server of this test's own: its worker would fail the tasks of others' jobs."""
    async with temporal_server() as client:
        yield client


@pytest.fixture
async def api(own: Client, store: LocalArtifactStore) -> AsyncIterator[httpx.AsyncClient]:
    """The API over that server."""
    async with asking(create_app(own, store, ApiSettings())) as api:
        yield api


@activity.defn(name=CARRY_OUT_BULK)
async def completed_by_hand(_: CarryOutInput) -> str:
    """As `temporal activity complete` with any result."""
    return "done"


async def test_bulk_that_waits_for_a_worker_to_sweep_is_read(
    api: httpx.AsyncClient, own: Client
) -> None:
    told = (await api.post("/v1/bulk/cancel")).json()
    handle = own.get_workflow_handle(bulk_workflow_id(told["id"]))
    async with Worker(own, task_queue=WORKFLOW_TASK_QUEUE, workflows=[BulkWorkflow]):
        async with asyncio.timeout(20):
            while not (await handle.describe()).raw_description.pending_activities:
                await asyncio.sleep(0.05)
        answer = await api.get(f"/v1/bulk/{told['id']}")
    assert answer.status_code == 200, answer.text
    assert answer.json() == told


async def test_bulk_whose_work_somebody_completed_by_hand_is_stopped(
    api: httpx.AsyncClient, own: Client
) -> None:
    told = (await api.post("/v1/bulk/cancel")).json()
    async with (
        asyncio.timeout(20),
        Worker(
            own,
            task_queue=WORKFLOW_TASK_QUEUE,
            workflows=[BulkWorkflow],
            activities=[completed_by_hand],
        ),
    ):
        done = told
        while done["state"] == "RUNNING":
            await asyncio.sleep(0.05)
            done = (await api.get(f"/v1/bulk/{told['id']}")).json()
    assert (done["state"], done["counts"]) == ("STOPPED", told["counts"])
