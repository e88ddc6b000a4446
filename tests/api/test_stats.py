"""`GET /v1/stats`, against jobs of a tenant of the test's own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.stage import deciding, hold, paint, working
from tests.api.tenants import asking_as, key_for
from tests.workflows.pure import image_request
from workflows.names import workflow_id_for
from workflows.state_machine import JobState
from workflows.stats import WINDOW_JOBS, StatsReader
from workflows.submission import start_job

Counts = dict[JobState, int]
UntilCounted = Callable[[Counts], Awaitable[None]]


@pytest.fixture
def tenant() -> str:
    return f"t{uuid4().hex[:12]}"


@pytest.fixture
async def figures(
    client: Client, store: LocalArtifactStore, engine: str, tenant: str
) -> AsyncIterator[httpx.AsyncClient]:
    """The API of this tenant."""
    app = create_app(client, store, ApiSettings(engines=engine))
    async with asking_as(app, await key_for(store, tenant)) as api:
        yield api


@pytest.fixture
def until_counted(client: Client, tenant: str) -> UntilCounted:
    """Waits until so many jobs are in each state; the API would remember what it said before."""

    async def wait(counts: Counts) -> None:
        wanted = dict.fromkeys(JobState, 0) | counts
        async with asyncio.timeout(30):
            while (await StatsReader(client, tenant).read()).counts != wanted:
                await asyncio.sleep(0.05)

    return wait


async def start(client: Client, engine: str, tenant: str, **fields: object) -> str:
    job_id = uuid4().hex
    await start_job(client, job_id, image_request(engine=engine, tenant=tenant, **fields))
    return job_id


async def read(api: httpx.AsyncClient) -> dict[str, Any]:
    response = await api.get("/v1/stats")
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


async def test_tenant_without_jobs_has_figures_of_none(figures: httpx.AsyncClient) -> None:
    told = await read(figures)
    assert told["states"] == {state.value: 0 for state in JobState}
    assert told["window"] == {"seconds": 3600, "max_jobs": WINDOW_JOBS, "jobs": 0}
    assert told["duration_seconds"] == told["waiting_seconds"]
    assert told["duration_seconds"] == {"p50": None, "p95": None, "p99": None}
    assert told["slowest"] == []


async def test_jobs_are_counted_by_what_they_read_as(
    figures: httpx.AsyncClient,
    client: Client,
    store: LocalArtifactStore,
    engine: str,
    tenant: str,
    until_counted: UntilCounted,
) -> None:
    async with working(client, engine, paint(store)):
        for _ in range(3):
            await start(client, engine, tenant)
        await until_counted({JobState.SUCCESS: 3})
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        running = await start(client, engine, tenant)
        ended = await start(client, engine, tenant)
        await start(client, engine, f"{tenant}-other")
        await until_counted({JobState.SUCCESS: 3, JobState.PROCESSING: 2})
        await client.get_workflow_handle(workflow_id_for(ended)).terminate()
        await until_counted({JobState.SUCCESS: 3, JobState.PROCESSING: 1, JobState.FAILED: 1})
        told = await read(figures)
        go.set()
    assert told["states"] | {"SUCCESS": 3, "PROCESSING": 1, "FAILED": 1} == told["states"]
    assert told["window"]["jobs"] == 4
    assert 0 <= told["waiting_seconds"]["p50"] <= told["duration_seconds"]["p50"]
    [slow] = told["slowest"]
    assert (slow["id"], slow["engine"], slow["attempt"]) == (running, engine, 1)
    assert slow["worker"]


async def test_ten_that_have_run_for_longest_are_told_longest_first(
    figures: httpx.AsyncClient,
    client: Client,
    store: LocalArtifactStore,
    engine: str,
    tenant: str,
    until_counted: UntilCounted,
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        for _ in range(12):
            await start(client, engine, tenant)
        await until_counted({JobState.PROCESSING: 12})
        told = await read(figures)
        go.set()
    since = [job["processing_since"] for job in told["slowest"]]
    assert len(since) == 10
    assert since == sorted(since)


async def test_backlog_is_told_by_engine_and_priority(
    figures: httpx.AsyncClient,
    client: Client,
    store: LocalArtifactStore,
    engine: str,
    tenant: str,
    until_counted: UntilCounted,
) -> None:
    async with deciding(client):
        for priority in (9, 9, 0):
            await start(client, engine, tenant, priority=priority)
        await until_counted({JobState.PENDING: 3})
        wanted = {"engine": engine, "waiting": 3, "by_priority": {"9": 2, "0": 1}}
        async with asyncio.timeout(30):
            while (await read(figures))["backlog"] != [wanted]:
                await asyncio.sleep(0.05)
    assert (await read(figures))["removals_backlog"]["waiting"] >= 0
