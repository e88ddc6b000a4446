"""PATCH of a job: what it answers in every state, and what is on record afterwards."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.contract import job, problem, refused_fields
from tests.api.stage import deciding, hold, paint, read_until, read_when, working
from tests.api.tenants import asking_as, key_for
from workflows.amending import MAX_AMENDMENTS
from workflows.names import workflow_id_for
from workflows.state_machine import JobState, allowed_events

Json = dict[str, Any]


async def create(api: httpx.AsyncClient, **fields: Any) -> str:
    return str(job(await api.post("/v1/jobs", json={"prompt": "a"} | fields), 202)["id"])


async def amend(api: httpx.AsyncClient, job_id: str, **fields: Any) -> httpx.Response:
    return await api.patch(f"/v1/jobs/{job_id}", json=fields)


async def signals_of(client: Client, job_id: str) -> int:
    handle = client.get_workflow_handle(workflow_id_for(job_id))
    kind = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    return len([event async for event in handle.fetch_history_events() if event.event_type == kind])


def in_force(told: Json) -> tuple[int, int]:
    return told["priority"], told["timeout_seconds"]


async def test_waiting_job_is_amended_with_who_and_why(
    api: httpx.AsyncClient, client: Client
) -> None:
    async with deciding(client):
        job_id = await create(api)
        asked = {"priority": 8, "timeout_seconds": 60, "message": "urgent"}
        told = job(await amend(api, job_id, **asked), 200, JobState.PENDING)
        assert in_force(told) == (8, 60)
        [entry] = told["amendments"]
        assert {**asked, "source": "api:default", "at": entry["at"]} == entry
        assert (told["request"]["priority"], told["request"]["timeout_seconds"]) == (5, 1800)
        assert told["transitions"] == []
        assert (await api.get(f"/v1/jobs/{job_id}")).json()["amendments"] == [entry]


async def test_amendment_that_is_repeated_changes_nothing_more(
    api: httpx.AsyncClient, client: Client
) -> None:
    async with deciding(client):
        job_id = await create(api)
        first = job(await amend(api, job_id, priority=8), 200)
        again = job(await amend(api, job_id, priority=8, message="once more"), 200)
        assert again["amendments"] == first["amendments"]
    assert await signals_of(client, job_id) == 1


async def test_value_that_it_has_already_takes_no_worker_and_no_signal(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    job_id = await create(deserted, priority=3)
    told = job(await amend(deserted, job_id, priority=3, timeout_seconds=1800), 200)
    assert told["amendments"] == []
    assert await signals_of(deserted_client, job_id) == 0


async def test_amendment_without_any_worker_is_durable(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    job_id = await create(api)
    for _ in range(2):
        response = await amend(api, job_id, priority=2, message="at night")
        assert in_force(job(response, 202, JobState.PENDING)) == (5, 1800)
        assert int(response.headers["retry-after"]) >= 1
    assert await signals_of(client, job_id) == 1
    async with working(client, engine, paint(store)):
        done = await read_when(api, job_id, "SUCCESS")
    assert done["priority"] == 2
    assert [entry["message"] for entry in done["amendments"]] == ["at night"]


async def test_unheard_amendments_are_counted_in_their_order(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    job_id = await create(deserted)
    for number, priority in enumerate((8, 5, 5, 8), start=1):
        job(await amend(deserted, job_id, priority=priority), 202 if priority == 8 else 200)
        assert await signals_of(deserted_client, job_id) == number - (number > 2)


async def test_job_is_paused_and_resumed_beside_an_amendment_that_nobody_hears(
    deserted: httpx.AsyncClient,
) -> None:
    job_id = await create(deserted)
    job(await amend(deserted, job_id, priority=8), 202)
    paused = job(await deserted.post(f"/v1/jobs/{job_id}/pause"), 202)
    assert paused["pending_request"] == "pause"
    assert job(await amend(deserted, job_id, priority=8), 202)["pending_request"] == "pause"


async def test_limit_of_a_running_job_moves_and_its_priority_does_not(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = await create(api)
        before = await read_when(api, job_id, "PROCESSING")
        told = job(await amend(api, job_id, timeout_seconds=86_400), 200, JobState.PROCESSING)
        assert told["deadline_at"] > before["deadline_at"]
        both: Json = {"priority": 9, "timeout_seconds": 60}
        refused = problem(await amend(api, job_id, **both), 409, "NOT_AMENDABLE")
        assert refused["current_state"] == "PROCESSING"
        assert refused["allowed_events"] == list(allowed_events(JobState.PROCESSING))
        job(await amend(api, job_id, priority=5), 200)
        go.set()
        done = await read_when(api, job_id, "SUCCESS")
    assert in_force(done) == (5, 86_400)
    assert len(done["amendments"]) == 1


async def test_paused_job_is_amended(api: httpx.AsyncClient, client: Client) -> None:
    async with deciding(client):
        job_id = await create(api)
        job(await api.post(f"/v1/jobs/{job_id}/pause"), 200, JobState.PAUSED)
        told = job(await amend(api, job_id, priority=0), 200, JobState.PAUSED)
    assert told["priority"] == 0


async def test_job_that_is_over_or_soon_will_be_is_not_amended(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    job_id = await create(deserted)
    job(await deserted.post(f"/v1/jobs/{job_id}/cancel"), 202)
    refused = problem(await amend(deserted, job_id, priority=8), 409, "NOT_AMENDABLE")
    assert "about to be cancelled" in refused["detail"]
    await deserted_client.get_workflow_handle(workflow_id_for(job_id)).terminate()
    for asked in ({"priority": 5}, {"timeout_seconds": 60}):
        refused = problem(await amend(deserted, job_id, **asked), 409, "NOT_AMENDABLE")
        assert (refused["current_state"], refused["allowed_events"]) == ("FAILED", [])


async def test_job_is_amended_only_so_often(deserted: httpx.AsyncClient) -> None:
    job_id = await create(deserted)
    for number in range(MAX_AMENDMENTS):
        job(await amend(deserted, job_id, timeout_seconds=100 + number), 202)
    refused = problem(await amend(deserted, job_id, priority=8), 409, "NOT_AMENDABLE")
    assert f"{MAX_AMENDMENTS} times" in refused["detail"]
    job(await amend(deserted, job_id, priority=5), 200)


async def test_job_of_another_tenant_is_not_there(
    client: Client, store: LocalArtifactStore
) -> None:
    app = create_app(client, store, ApiSettings())
    keys = [await key_for(store, tenant) for tenant in ("anne", "ben")]
    async with asking_as(app, keys[0]) as anne, asking_as(app, keys[1]) as ben:
        job_id = await create(anne)
        problem(await amend(ben, job_id, priority=8), 404, "JOB_NOT_FOUND")
        assert (await anne.get(f"/v1/jobs/{job_id}")).json()["amendments"] == []
    assert await signals_of(client, job_id) == 0


@pytest.mark.parametrize("job_id", ["nothing", "Not-An-Id", "a" * 200])
async def test_job_that_never_was_is_not_there(deserted: httpx.AsyncClient, job_id: str) -> None:
    problem(await amend(deserted, job_id, priority=8), 404, "JOB_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "#"),
        ({"message": "why"}, "#"),
        ({"priority": None}, "#"),
        ([], "#"),
        (7, "#"),
        *(({"priority": value}, "#/priority") for value in (-1, 10, "7", 7.5, True, [7])),
        *(
            ({"timeout_seconds": value}, "#/timeout_seconds")
            for value in (9, 86_401, "60", 60.5, 10**30)
        ),
        ({"priority": 7, "message": "x" * 201}, "#/message"),
        ({"priority": 7, "message": "a\0"}, "#/message"),
        ({"priority": 7, "source": "operator"}, "#/source"),
        ({"priority": 7, "prompt": "b"}, "#/prompt"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_bad_amendment_is_refused_and_changes_nothing(
    deserted: httpx.AsyncClient, deserted_client: Client, body: Any, pointer: str
) -> None:
    job_id = await create(deserted)
    response = await deserted.patch(f"/v1/jobs/{job_id}", json=body)
    assert refused_fields(response) == {pointer}
    assert await signals_of(deserted_client, job_id) == 0


async def test_method_is_offered_where_another_is_refused(deserted: httpx.AsyncClient) -> None:
    for method in ("OPTIONS", "PUT"):
        refused = await deserted.request(method, "/v1/jobs/x")
        assert refused.status_code == 405
        assert "PATCH" in refused.headers["allow"].split(", ")


async def test_amendment_that_races_the_job_is_answered_by_what_won(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with working(client, engine, paint(store)):
        for delay in (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1):
            job_id = await create(api)
            # Spreads the calls over the life of the job; whatever comes of it must be consistent.
            await asyncio.sleep(delay)
            answer = await amend(api, job_id, priority=8)
            done = await read_when(api, job_id, "SUCCESS")
            assert answer.status_code in {200, 202, 409}
            if answer.status_code == 200:
                assert done["priority"] == 8
            assert [e for e in done["transitions"] if e["event"] == "START"] != []


async def test_amendments_at_once_all_count(api: httpx.AsyncClient, client: Client) -> None:
    async with deciding(client):
        job_id = await create(api)
        wanted: Sequence[Json] = [{"priority": n} for n in (1, 2, 3)] + [{"timeout_seconds": 99}]
        answers = await asyncio.gather(*(amend(api, job_id, **asked) for asked in wanted))
        for answer in answers:
            job(answer, 200)
        told = await read_until(api, job_id, lambda told: len(told["amendments"]) == len(wanted))
    last = [entry["priority"] for entry in told["amendments"] if entry["priority"] is not None]
    assert in_force(told) == (last[-1], 99)


async def test_amendments_at_once_are_told_which_of_them_count(
    api: httpx.AsyncClient, client: Client
) -> None:
    async with deciding(client):
        job_id = await create(api)
        limits = range(100, 105 + MAX_AMENDMENTS)
        answers = await asyncio.gather(*(amend(api, job_id, timeout_seconds=n) for n in limits))
        told = (await api.get(f"/v1/jobs/{job_id}")).json()
    made = {entry["timeout_seconds"] for entry in told["amendments"]}
    for limit, answer in zip(limits, answers, strict=True):
        if limit in made:
            job(answer, 200)
        else:
            problem(answer, 409, "NOT_AMENDABLE")
