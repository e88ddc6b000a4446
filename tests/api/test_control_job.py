"""Cancel, pause and resume in every state: what they answer, and what is on record afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.errors import ErrorKind
from activities.models import WorkInput, WorkResult
from tests.api.contract import job, problem, refused_fields
from tests.api.stage import hold, paint, read_when, working
from workflows.names import workflow_id_for
from workflows.state_machine import JobState, allowed_events

ACTIONS = ["cancel", "pause", "resume"]
CONTROLS = "bell\x07 escape\x1b[31m line\r\nbreak \u202e"


async def create(api: httpx.AsyncClient, **fields: Any) -> str:
    return str(job(await api.post("/v1/jobs", json={"prompt": "a"} | fields), 202)["id"])


async def post(
    api: httpx.AsyncClient, job_id: str, action: str, message: str | None = None
) -> httpx.Response:
    body = None if message is None else {"message": message}
    return await api.post(f"/v1/jobs/{job_id}/{action}", json=body)


@asynccontextmanager
async def processing(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A job at work, and the event that lets it finish."""
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = await create(api)
        await read_when(api, job_id, "PROCESSING")
        yield job_id, go
        go.set()


def refusal(response: httpx.Response, state: JobState) -> dict[str, Any]:
    told = problem(response, 409, "ILLEGAL_TRANSITION")
    assert told["current_state"] == state
    assert told["allowed_events"] == list(allowed_events(state))
    return told


async def test_running_job_is_cancelled_with_who_and_why(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with processing(api, client, engine, store) as (job_id, _):
        told = job(await post(api, job_id, "cancel", "changed my mind"), 200, JobState.CANCELLED)
    last = told["transitions"][-1]
    assert (last["event"], last["source"]) == ("CANCEL", "api:default")
    assert last["message"] == "changed my mind"
    assert told["pending_request"] is None
    assert told["finished_at"]


async def test_running_job_is_paused_resumed_and_finished(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with processing(api, client, engine, store) as (job_id, go):
        paused = job(await post(api, job_id, "pause", "lunch"), 200, JobState.PAUSED)
        assert paused["waiting_for"] == "paused until it is resumed"
        assert set(paused["links"]) == {"self", "cancel", "resume"}
        assert job(await post(api, job_id, "pause"), 200)["transitions"] == paused["transitions"]
        go.set()
        resumed = job(await post(api, job_id, "resume", "back"), 200)
        done = await read_when(api, job_id, "SUCCESS")
    assert resumed["state"] != "PAUSED"
    assert [t["event"] for t in done["transitions"]] == [
        *("START", "PAUSE", "RESUME", "START", "COMPLETE")
    ]
    assert [t["message"] for t in done["transitions"][1:3]] == ["lunch", "back"]
    assert [t["source"] for t in done["transitions"][1:3]] == ["api:default"] * 2


async def test_resume_that_was_carried_out_is_answered_again(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with processing(api, client, engine, store) as (job_id, _):
        job(await post(api, job_id, "pause"), 200, JobState.PAUSED)
        job(await post(api, job_id, "resume"), 200)
        await read_when(api, job_id, "PROCESSING")
        job(await post(api, job_id, "resume"), 200)


async def test_running_job_can_not_be_resumed(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with processing(api, client, engine, store) as (job_id, _):
        told = refusal(await post(api, job_id, "resume"), JobState.PROCESSING)
        assert "PROCESSING" in told["detail"]


async def test_paused_job_is_cancelled(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with processing(api, client, engine, store) as (job_id, _):
        job(await post(api, job_id, "pause"), 200, JobState.PAUSED)
        job(await post(api, job_id, "cancel"), 200, JobState.CANCELLED)


@pytest.mark.parametrize("fate", ["SUCCESS", "FAILED", "CANCELLED"])
async def test_finished_job_is_left_as_it_is(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore, fate: str
) -> None:
    async def work(input: WorkInput) -> WorkResult:
        if fate == "FAILED":
            raise RuntimeError(ErrorKind.INTERNAL)
        return await paint(store)(input)

    go = asyncio.Event()
    async with working(client, engine, hold(go, work)):
        job_id = await create(api, max_attempts=1)
        if fate == "CANCELLED":
            await post(api, job_id, "cancel")
        go.set()
        before = await read_when(api, job_id, fate)
    assert job(await post(api, job_id, "cancel", "again"), 200) == before
    refusal(await post(api, job_id, "pause"), JobState(fate))
    refusal(await post(api, job_id, "resume"), JobState(fate))
    assert (await api.get(f"/v1/jobs/{job_id}")).json() == before


async def test_terminated_job_is_final_for_every_action(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    job_id = await create(deserted)
    await deserted_client.get_workflow_handle(workflow_id_for(job_id)).terminate()
    job(await post(deserted, job_id, "cancel"), 200, JobState.FAILED)
    refusal(await post(deserted, job_id, "pause"), JobState.FAILED)
    refusal(await post(deserted, job_id, "resume"), JobState.FAILED)


@pytest.mark.parametrize("action", ["cancel", "pause"])
async def test_wish_without_any_worker_is_accepted_and_shown(
    deserted: httpx.AsyncClient, action: str
) -> None:
    job_id = await create(deserted)
    response = await post(deserted, job_id, action)
    told = job(response, 202, JobState.PENDING)
    assert int(response.headers["retry-after"]) >= 1
    assert told["pending_request"] == action
    later = job(await deserted.get(f"/v1/jobs/{job_id}"), 200, JobState.PENDING)
    assert later["pending_request"] == action
    assert "workflow workers are down" in later["waiting_for"]


async def test_pause_that_nobody_has_seen_is_taken_back(deserted: httpx.AsyncClient) -> None:
    job_id = await create(deserted)
    assert "resume" in job(await post(deserted, job_id, "pause"), 202)["links"]
    assert job(await post(deserted, job_id, "resume"), 200)["pending_request"] is None
    assert (await deserted.get(f"/v1/jobs/{job_id}")).json()["pending_request"] is None


async def test_nothing_follows_a_cancel_that_nobody_has_heard(deserted: httpx.AsyncClient) -> None:
    job_id = await create(deserted)
    job(await post(deserted, job_id, "cancel"), 202)
    assert "cancelled" in refusal(await post(deserted, job_id, "pause"), JobState.PENDING)["detail"]
    assert (await deserted.get(f"/v1/jobs/{job_id}")).json()["pending_request"] == "cancel"


async def test_wish_from_before_the_workers_came_is_carried_out(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    job_id = await create(api)
    response = await post(api, job_id, "cancel", "too late")
    assert job(response, 202)["pending_request"] == "cancel"
    async with working(client, engine, paint(store)) as work:
        done = await read_when(api, job_id, "CANCELLED")
    assert done["transitions"][-1]["message"] == "too late"
    assert done["attempt"] == 0
    assert work.inputs == []


async def test_wish_after_the_workers_left_is_shown_at_once(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with processing(api, client, engine, store) as (job_id, _):
        job(await post(api, job_id, "pause"), 200, JobState.PAUSED)
    response = await post(api, job_id, "cancel")
    assert job(response, 202, JobState.PAUSED)["pending_request"] == "cancel"
    assert (await api.get(f"/v1/jobs/{job_id}")).json()["pending_request"] == "cancel"


async def test_resume_after_the_workers_left_is_accepted_and_shown(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with processing(api, client, engine, store) as (job_id, _):
        job(await post(api, job_id, "pause"), 200, JobState.PAUSED)
    told = job(await post(api, job_id, "resume"), 202, JobState.PAUSED)
    assert told["pending_request"] == "resume"
    assert (await api.get(f"/v1/jobs/{job_id}")).json()["pending_request"] == "resume"
    async with working(client, engine, paint(store)):
        await read_when(api, job_id, "SUCCESS")


@pytest.mark.parametrize("message", ["", "x" * 1000, "🛑" * 1000, CONTROLS])
async def test_message_is_kept_character_by_character(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore, message: str
) -> None:
    async with processing(api, client, engine, store) as (job_id, _):
        told = job(await post(api, job_id, "cancel", message), 200, JobState.CANCELLED)
    assert told["transitions"][-1]["message"] == (message or "cancelled on request")


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"message": "x" * 1001}, "#/message"),
        ({"message": 5}, "#/message"),
        ({"message": None}, "#/message"),
        ({"message": "a\0"}, "#/message"),
        ({"source": "operator"}, "#/source"),
        ([], "#"),
        ("cancel", "#"),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_bad_reason_is_refused_and_changes_nothing(
    deserted: httpx.AsyncClient, action: str, body: Any, pointer: str
) -> None:
    job_id = await create(deserted)
    before = (await deserted.get(f"/v1/jobs/{job_id}")).json()
    response = await deserted.post(f"/v1/jobs/{job_id}/{action}", json=body)
    assert refused_fields(response) == {pointer}
    assert (await deserted.get(f"/v1/jobs/{job_id}")).json() == before


@pytest.mark.parametrize("content", [b"", b"null", b"{}", b'{"message":""}'])
async def test_reason_may_be_left_out(
    deserted: httpx.AsyncClient, deserted_client: Client, content: bytes
) -> None:
    job_id = await create(deserted)
    await deserted_client.get_workflow_handle(workflow_id_for(job_id)).terminate()
    headers = {"content-type": "application/json"}
    url = f"/v1/jobs/{job_id}/cancel"
    job(await deserted.post(url, content=content, headers=headers), 200)
