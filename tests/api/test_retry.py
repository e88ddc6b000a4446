"""POST /v1/jobs/{id}/retry: the same again, from every end without an image."""

import asyncio
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.errors import ErrorKind
from tests.api.contract import job, problem
from tests.api.stage import hold, paint, read_when, removing, working
from tests.fakes import Behaviour
from tests.workflows.behaviours import fail_with
from workflows.names import workflow_id_for

ASKED = {"prompt": "a", "width": 64, "height": 96, "labels": {"order": "7"}, "priority": 8}


async def ended(api: httpx.AsyncClient, client: Client, engine: str, how: str) -> str:
    """A job that ended so."""
    failing: Behaviour = fail_with(ErrorKind.CONTENT_REJECTED)
    async with working(client, engine, failing):
        asked = ASKED | ({"start_at": "2027-01-01T00:00:00Z"} if how != "FAILED" else {})
        job_id: str = job(await api.post("/v1/jobs", json=asked), 202)["id"]
        if how == "CANCELLED":
            job(await api.post(f"/v1/jobs/{job_id}/cancel"), 200)
        elif how == "terminated":
            handle = client.get_workflow_handle(workflow_id_for(job_id))
            await handle.terminate(reason="a test")
        await read_when(api, job_id, "FAILED" if how == "terminated" else how)
    return job_id


@pytest.mark.parametrize("how", ["FAILED", "CANCELLED", "terminated"])
async def test_same_request_is_a_new_job(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore, how: str
) -> None:
    first = await ended(api, client, engine, how)
    before = (await api.get(f"/v1/jobs/{first}")).json()
    assert before["links"]["retry"].endswith(f"/{first}/retry")
    async with working(client, engine, paint(store)):
        response = await api.post(f"/v1/jobs/{first}/retry")
        again = job(response, 202)
        assert response.headers["location"] == f"/v1/jobs/{again['id']}"
        assert (again["retry_of"], before["retry_of"]) == (first, None)
        assert again["id"] != first
        assert again["request"] == before["request"] | {"start_at": None}
        await read_when(api, again["id"], "SUCCESS")
    assert (await api.get(f"/v1/jobs/{first}")).json() == before


async def test_job_that_goes_on_or_has_its_image_is_not_retried(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = job(await api.post("/v1/jobs", json=ASKED), 202)["id"]
        refused = problem(await api.post(f"/v1/jobs/{job_id}/retry"), 409, "NOT_RETRYABLE")
        assert "goes on by itself" in refused["detail"]
        go.set()
        told = await read_when(api, job_id, "SUCCESS")
    refused = problem(await api.post(f"/v1/jobs/{job_id}/retry"), 409, "NOT_RETRYABLE")
    assert refused["detail"] == "The job has its image."
    assert "retry" not in told["links"]


async def test_job_whose_image_was_lost_is_retried(
    api: httpx.AsyncClient,
    client: Client,
    engine: str,
    store: LocalArtifactStore,
    tmp_path: Path,
) -> None:
    async with working(client, engine, paint(store)):
        job_id = job(await api.post("/v1/jobs", json=ASKED), 202)["id"]
        await read_when(api, job_id, "SUCCESS")
        [file] = (tmp_path / "artifacts").rglob("*.png")
        file.unlink()
        again = job(await api.post(f"/v1/jobs/{job_id}/retry"), 202)
        assert again["retry_of"] == job_id
        await read_when(api, again["id"], "SUCCESS")


async def test_removal_is_run_again_under_its_own_id(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    asked = {"prompt": "a", "watermark": "remove", "label_terms_accepted": True}
    async with working(client, engine, paint(store)):
        async with removing(client, fail_with(ErrorKind.LABEL_NOT_FOUND)):
            first = job(await api.post("/v1/jobs", json=asked), 202)["id"]
            successor = (await read_when(api, first, "SUCCESS"))["successor_id"]
            await read_when(api, successor, "FAILED")
        async with removing(client, paint(store, "white")):
            again = job(await api.post(f"/v1/jobs/{successor}/retry"), 202)
            assert again["id"] == successor
            await read_when(api, successor, "SUCCESS")


async def test_unknown_job_is_not_retried(api: httpx.AsyncClient) -> None:
    problem(await api.post("/v1/jobs/no-such-job/retry"), 404, "JOB_NOT_FOUND")
