"""Cancel, pause and resume at the same moment as each other, and as the end of the job."""

import asyncio

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from tests.api.contract import job
from tests.api.stage import hold, paint, read_until, read_when, working
from workflows.state_machine import JobState


async def create(api: httpx.AsyncClient) -> str:
    return str(job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"])


async def test_twenty_cancels_at_once_are_one(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with working(client, engine, hold(asyncio.Event(), paint(store))):
        job_id = await create(api)
        await read_when(api, job_id, "PROCESSING")
        url = f"/v1/jobs/{job_id}/cancel"
        answers = await asyncio.gather(
            *(api.post(url, json={"message": str(n)}) for n in range(20))
        )
        for answer in answers:
            job(answer, 200, JobState.CANCELLED)
        done = (await api.get(f"/v1/jobs/{job_id}")).json()
    assert [t["event"] for t in done["transitions"]] == ["START", "CANCEL"]


@pytest.mark.parametrize("action", ["cancel", "pause"])
async def test_action_that_races_the_end_gets_the_state_that_won(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore, action: str
) -> None:
    async with working(client, engine, paint(store)):
        for delay in (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1):
            job_id = await create(api)
            # Spreads the calls over the life of the job; whatever comes of it must be consistent.
            await asyncio.sleep(delay)
            answer = await api.post(f"/v1/jobs/{job_id}/{action}")
            assert answer.status_code in ({200} if action == "cancel" else {200, 409})
            told = (await api.get(f"/v1/jobs/{job_id}")).json()
            if answer.status_code == 409:
                assert answer.json()["current_state"] == told["state"] == "SUCCESS"
            else:
                assert answer.json()["state"] == told["state"]


async def test_pause_and_resume_at_once_leave_a_job_that_ends(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = await create(api)
        await read_when(api, job_id, "PROCESSING")
        answers = await asyncio.gather(
            *(api.post(f"/v1/jobs/{job_id}/{action}") for action in ["pause", "resume"] * 5)
        )
        assert {answer.status_code for answer in answers} <= {200, 202, 409}
        await api.post(f"/v1/jobs/{job_id}/resume")
        go.set()
        told = await read_until(api, job_id, lambda told: told["done"] or told["state"] == "PAUSED")
        if told["state"] == "PAUSED":
            await api.post(f"/v1/jobs/{job_id}/resume")
        await read_when(api, job_id, "SUCCESS")
