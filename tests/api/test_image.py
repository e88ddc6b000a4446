"""GET /v1/jobs/{id}/image: exactly the recorded bytes, or the reason why there are none."""

import asyncio
import hashlib
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from tests.api.contract import job, problem
from tests.api.stage import hold, paint, png, read_when, working
from workflows.names import workflow_id_for
from workflows.state_machine import JobState


@pytest.fixture
async def url(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> str:
    """Where the image of a finished job is."""
    async with working(client, engine, paint(store)):
        job_id = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        await read_when(api, job_id, "SUCCESS")
    return f"/v1/jobs/{job_id}/image"


@pytest.fixture
def file(url: str, tmp_path: Path) -> Path:
    """The image in the store."""
    [file] = (tmp_path / "artifacts").rglob("*.png")
    return file


async def test_image_is_the_recorded_bytes(api: httpx.AsyncClient, url: str) -> None:
    response = await api.get(url)
    assert response.status_code == 200
    assert response.content == png()
    assert response.headers["content-type"] == "image/png"
    assert response.headers["etag"] == f'"{hashlib.sha256(png()).hexdigest()}"'
    assert response.headers["x-content-type-options"] == "nosniff"
    told = (await api.get(url.removesuffix("/image"))).json()
    assert told["result"]["image_url"].endswith(url)
    assert told["result"]["sha256"] in response.headers["etag"]


@pytest.mark.parametrize("form", ["{}", "W/{}", '"x", {}', "*"])
async def test_image_that_the_client_has_is_not_sent_again(
    api: httpx.AsyncClient, url: str, form: str
) -> None:
    tag = (await api.get(url)).headers["etag"]
    response = await api.get(url, headers={"if-none-match": form.format(tag)})
    assert response.status_code == 304
    assert response.content == b""
    assert response.headers["etag"] == tag


async def test_head_of_an_image_has_its_size(api: httpx.AsyncClient, url: str) -> None:
    response = await api.head(url)
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len(png())
    assert response.content == b""


async def test_deleted_image_is_lost(api: httpx.AsyncClient, url: str, file: Path) -> None:
    await asyncio.to_thread(file.unlink)
    problem(await api.get(url), 410, "ARTIFACT_LOST")


@pytest.mark.parametrize("damage", [b"", b"not an image", png() + b"\0", png()[:-1]])
async def test_damaged_image_is_lost(
    api: httpx.AsyncClient, url: str, file: Path, damage: bytes
) -> None:
    await asyncio.to_thread(file.write_bytes, damage)
    problem(await api.get(url), 410, "ARTIFACT_LOST")


async def test_image_of_a_store_that_can_not_be_read_is_unavailable(
    api: httpx.AsyncClient, url: str, file: Path
) -> None:
    await asyncio.to_thread(file.unlink)
    await asyncio.to_thread(file.mkdir)
    response = await api.get(url)
    problem(response, 503, "STORE_UNAVAILABLE")
    assert int(response.headers["retry-after"]) >= 1


async def test_unfinished_job_has_no_image(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        await read_when(api, job_id, "PROCESSING")
        told = problem(await api.get(f"/v1/jobs/{job_id}/image"), 409, "NO_IMAGE")
        assert told["current_state"] == "PROCESSING"
        assert "COMPLETE" in told["allowed_events"]
        go.set()


async def test_job_without_success_never_has_an_image(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    job_id = job(await deserted.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
    await deserted_client.get_workflow_handle(workflow_id_for(job_id)).terminate()
    told = problem(await deserted.get(f"/v1/jobs/{job_id}/image"), 409, "NO_IMAGE")
    assert told["current_state"] == JobState.FAILED
    assert told["allowed_events"] == []
