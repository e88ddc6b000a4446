"""`/v1/bulk`: what is accepted and answered, and what becomes of the jobs."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.contract import job, problem
from tests.api.stage import deciding, hold, paint, read_when, working
from tests.api.tenants import asking_as, key_for
from workflows.bulk_messages import (
    BULK_WORKFLOW,
    ORDER_KEY,
    bulk_workflow_id,
)

Told = dict[str, Any]
BULK_KEYS = {
    *("id", "action", "state", "cutoff_at", "finished_at", "filter", "message"),
    *("counts", "failures", "links"),
}
ACTIONS = ["cancel", "pause", "resume"]


@pytest.fixture(autouse=True)
async def _nothing_stays(client: Client) -> AsyncIterator[None]:
    """A bulk of one test must not go on in the next one's workers."""
    begun = datetime.now(UTC).isoformat()
    yield
    query = f'WorkflowType="{BULK_WORKFLOW}" AND ExecutionStatus="Running" AND StartTime>="{begun}"'
    async for row in client.list_workflows(query):
        await client.get_workflow_handle(row.id).terminate()


async def create(api: httpx.AsyncClient, **fields: Any) -> str:
    return str(job(await api.post("/v1/jobs", json={"prompt": "a"} | fields), 202)["id"])


def accepted(response: httpx.Response) -> Told:
    """The bulk operation that was answered, after checks of what holds for all."""
    assert response.status_code == 202, response.text
    told: Told = response.json()
    assert set(told) == BULK_KEYS
    assert response.headers["location"] == f"/v1/bulk/{told['id']}"
    assert told["links"]["self"].endswith(response.headers["location"])
    assert int(response.headers["retry-after"]) >= 1
    return told


async def bulk(api: httpx.AsyncClient, action: str, **body: Any) -> Told:
    return accepted(await api.post(f"/v1/bulk/{action}", json=body))


async def when_done(api: httpx.AsyncClient, bulk_id: str) -> Told:
    """The bulk operation once it is over."""
    async with asyncio.timeout(60):
        while True:
            response = await api.get(f"/v1/bulk/{bulk_id}")
            assert response.status_code == 200, response.text
            told: Told = response.json()
            if told["state"] != "RUNNING":
                return told
            await asyncio.sleep(0.1)


async def test_jobs_in_every_state_are_cancelled_as_by_themselves(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with working(client, engine, paint(store)):
        done = await create(api)
        finished = await read_when(api, done, "SUCCESS")
    async with working(client, engine, hold(asyncio.Event(), paint(store))):
        running, paused = [await create(api) for _ in range(2)]
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        delayed = await create(api, start_at=tomorrow)
        for job_id in (running, paused):
            await read_when(api, job_id, "PROCESSING")
        await api.post(f"/v1/jobs/{paused}/pause")
        await read_when(api, paused, "PAUSED")
        told = await bulk(api, "cancel", engine=engine, message="closing down")
        assert (told["action"], told["state"]) == ("cancel", "RUNNING")
        assert (told["filter"], told["message"]) == ({"engine": [engine]}, "closing down")
        later = await create(api)
        for job_id in (running, paused, delayed):
            cancelled = await read_when(api, job_id, "CANCELLED")
            last = cancelled["transitions"][-1]
            assert (last["source"], last["message"]) == ("api:default", "closing down")
        told = await when_done(api, told["id"])
        assert not (await api.get(f"/v1/jobs/{later}")).json()["done"]
    assert told["state"] == "DONE"
    assert told["cutoff_at"] < told["finished_at"]
    counts = {"matched": 3, "asked": 3, "unchanged": 0, "refused": 0, "failed": 0}
    assert (told["counts"], told["failures"]) == (counts, [])
    assert (await api.get(f"/v1/jobs/{done}")).json() == finished


async def test_bulk_from_before_the_workers_came_is_carried_out_by_one_after_another(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    ids = [await create(api) for _ in range(30)]
    told = await bulk(api, "cancel", engine=engine, state=["PENDING"])
    unheard = (await api.get(f"/v1/bulk/{told['id']}")).json()
    assert (unheard["state"], unheard["counts"]["asked"]) == ("RUNNING", 0)
    async with working(client, engine, hold(asyncio.Event(), paint(store))):
        await read_when(api, ids[15], "CANCELLED")
    # That worker has left in the midst of it, or after the first sweep.
    async with deciding(client):
        for job_id in ids:
            await read_when(api, job_id, "CANCELLED")
        done = await when_done(api, told["id"])
    assert (done["counts"]["matched"], done["counts"]["asked"]) == (30, 30)


async def test_paused_jobs_are_resumed_together(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    async with deciding(client):
        ids = [await create(api) for _ in range(3)]
        await bulk(api, "pause", engine=engine, message="lunch")
        for job_id in ids:
            told = await read_when(api, job_id, "PAUSED")
            assert told["transitions"][-1]["message"] == "lunch"
        await bulk(api, "resume", engine=engine, message="back")
        for job_id in ids:
            told = await read_when(api, job_id, "PENDING")
            assert [t["message"] for t in told["transitions"]] == ["lunch", "back"]


class Tenants(NamedTuple):
    """Two tenants of one application."""

    anne: httpx.AsyncClient
    bob: httpx.AsyncClient


@pytest.fixture
async def tenants(client: Client, store: LocalArtifactStore, engine: str) -> AsyncIterator[Tenants]:
    names = [f"{name}-{uuid4().hex[:8]}" for name in ("anne", "bob")]
    first, second = [await key_for(store, name) for name in names]
    app = create_app(client, store, ApiSettings(engines=engine))
    async with asking_as(app, first) as anne, asking_as(app, second) as bob:
        yield Tenants(anne, bob)


HOSTILE = [
    '"',
    "'",
    "\\",
    '" OR JobTenant != "',
    "x' OR '1'='1",
    '") OR (JobTenant IS NOT NULL',
    "customer:42",
    "*",
    "%",
]


async def test_no_filter_reaches_another_tenants_jobs(tenants: Tenants, client: Client) -> None:
    labels = {"customer": "42"} | {text[:63]: text for text in HOSTILE}
    async with deciding(client):
        annes = await create(tenants.anne, labels=labels)
        bobs = await create(tenants.bob, labels=labels)
        before = (await tenants.anne.get(f"/v1/jobs/{annes}")).json()
        for name in ("label", "worker", "engine"):
            for text in HOSTILE:
                answer = await tenants.bob.post("/v1/bulk/cancel", json={name: text})
                assert answer.status_code in (202, 422), answer.text
        # No filter at all means all of one's own.
        await bulk(tenants.bob, "cancel")
        await read_when(tenants.bob, bobs, "CANCELLED")
        await until_none_runs(client)
        after = (await tenants.anne.get(f"/v1/jobs/{annes}")).json()
    assert (after["state"], after["transitions"]) == (before["state"], before["transitions"])


async def until_none_runs(client: Client) -> None:
    """Wait until every bulk has made at least one whole sweep: then it tells of one."""
    query = f'WorkflowType="{BULK_WORKFLOW}" AND ExecutionStatus="Running"'
    async with asyncio.timeout(90):
        while (await client.count_workflows(query)).count:
            await asyncio.sleep(0.2)


async def test_bulk_of_another_tenant_is_not_there(tenants: Tenants, client: Client) -> None:
    told = await bulk(tenants.anne, "cancel", state="PAUSED")
    assert (await tenants.anne.get(f"/v1/bulk/{told['id']}")).json()["id"] == told["id"]
    missing = problem(await tenants.bob.get("/v1/bulk/no-such-bulk"), 404, "BULK_NOT_FOUND")
    anothers = await tenants.bob.get(f"/v1/bulk/{told['id']}")
    assert problem(anothers, 404, "BULK_NOT_FOUND") == missing
    assert (
        await client.get_workflow_handle(bulk_workflow_id(told["id"])).describe()
    ).close_time is None


async def test_key_of_one_tenant_is_none_of_anothers(tenants: Tenants) -> None:
    headers = {"Idempotency-Key": "the same"}
    answers = [await api.post("/v1/bulk/pause", headers=headers) for api in tenants]
    assert len({accepted(answer)["id"] for answer in answers}) == 2


async def test_bulk_that_an_operator_ended_is_stopped(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    told = await bulk(deserted, "cancel", engine="nobodys")
    await deserted_client.get_workflow_handle(bulk_workflow_id(told["id"])).terminate()
    told = (await deserted.get(f"/v1/bulk/{told['id']}")).json()
    assert told["state"] == "STOPPED"
    assert told["finished_at"]


@pytest.mark.parametrize("memo", [{}, {ORDER_KEY: "mine"}, {ORDER_KEY: {"action": "cancel"}}])
async def test_bulk_that_was_started_by_hand_is_nobodys(
    deserted: httpx.AsyncClient, deserted_client: Client, memo: Told
) -> None:
    bulk_id = uuid4().hex
    await deserted_client.start_workflow(
        BULK_WORKFLOW, id=bulk_workflow_id(bulk_id), task_queue="nobodys", memo=memo
    )
    problem(await deserted.get(f"/v1/bulk/{bulk_id}"), 404, "BULK_NOT_FOUND")
