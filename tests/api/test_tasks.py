"""The older shape: a page that knows nothing else works unchanged."""

import asyncio
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.errors import ErrorKind
from tests.api.conftest import CountWorkflows
from tests.api.contract import problem, refused_fields
from tests.api.stage import hold, paint, png, removing, working
from tests.workflows.behaviours import fail_with

PLAIN = '{"prompt": "a lake", "type": "TEXT_TO_IMAGE"}'
REMOVE = '{"prompt": "a lake", "watermark": "remove", "label_terms_accepted": true}'
DONE = ("SUCCESS", "FAILED", "CANCELLED", "TIMEOUT_CANCELLED")

Json = dict[str, Any]


async def submit(api: httpx.AsyncClient, body: str = PLAIN) -> str:
    """As `fetch` sends a string: without a word about its type."""
    response = await api.post("/api/task/submit", content=body.encode())
    assert response.status_code == 200, response.text
    assert set(response.json()) == {"taskId"}
    task_id: str = response.json()["taskId"]
    return task_id


async def status(api: httpx.AsyncClient, task_id: str) -> Json:
    """What the page shows."""
    response = await api.get(f"/api/task/{task_id}/status")
    assert response.status_code == 200, response.text
    told: Json = response.json()
    assert set(told) == {"taskId", "status", "progress", "resultUrl", "errorMsg", "history"}
    assert told["taskId"] == task_id
    assert (told["progress"] == 100) is (told["status"] == "SUCCESS")
    return told


async def poll(api: httpx.AsyncClient, task_id: str) -> Json:
    """Until the page would stop; what it was shown never runs backwards."""
    percent = -1
    async with asyncio.timeout(20):
        while (told := await status(api, task_id))["status"] not in DONE:
            assert told["progress"] >= percent
            assert (told["resultUrl"], told["errorMsg"]) == (None, None)
            percent = told["progress"]
            await asyncio.sleep(0.02)
    return told


async def shown(api: httpx.AsyncClient, told: Json) -> bytes:
    """The image at the page's URL."""
    response = await api.get(told["resultUrl"])
    assert response.status_code == 200, response.text
    return response.content


async def test_page_shows_the_image(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with working(client, engine, paint(store)):
        told = await poll(api, await submit(api))
    assert told["status"] == "SUCCESS"
    assert told["errorMsg"] is None
    assert [(t["sequence"], t["event"]) for t in told["history"]] == [(1, "START"), (2, "COMPLETE")]
    assert await shown(api, told) == png()


@pytest.mark.parametrize("content_type", ["text/plain;charset=UTF-8", "application/json", "x/y"])
async def test_content_type_does_not_matter(
    deserted: httpx.AsyncClient, started: CountWorkflows, content_type: str
) -> None:
    headers = {"content-type": content_type}
    response = await deserted.post("/api/task/submit", content=PLAIN.encode(), headers=headers)
    assert response.status_code == 200
    assert await started() == 1


async def test_task_with_a_label_to_remove_is_processing_until_the_clean_image_is_there(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with (
        working(client, engine, paint(store)),
        removing(client, hold(go, paint(store, "white"))),
    ):
        task_id = await submit(api, REMOVE)
        async with asyncio.timeout(20):
            while (told := await status(api, task_id))["progress"] < 90:
                await asyncio.sleep(0.02)
        assert (told["status"], told["resultUrl"]) == ("PROCESSING", None)
        go.set()
        told = await poll(api, task_id)
    assert await shown(api, told) == png("white")
    assert [t["sequence"] for t in told["history"]] == [1, 2, 3, 4]


async def test_label_that_stays_is_told_beside_the_image(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    failing = fail_with(ErrorKind.LABEL_NOT_FOUND, "no label")
    async with working(client, engine, paint(store)), removing(client, failing):
        told = await poll(api, await submit(api, REMOVE))
    assert told["status"] == "SUCCESS"
    assert told["errorMsg"] == "the label could not be removed: no label"
    assert await shown(api, told) == png()


async def test_failure_is_told_in_words(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    failing = fail_with(ErrorKind.CONTENT_REJECTED, "the prompt was refused")
    async with working(client, engine, failing):
        told = await poll(api, await submit(api))
    assert (told["status"], told["resultUrl"]) == ("FAILED", None)
    assert told["errorMsg"] == "the prompt was refused"


@pytest.mark.parametrize("body", [PLAIN, REMOVE])
async def test_cancel_ends_whatever_runs(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore, body: str
) -> None:
    never = hold(asyncio.Event(), paint(store))
    is_chain = body == REMOVE
    first = paint(store) if is_chain else never
    async with working(client, engine, first), removing(client, never):
        task_id = await submit(api, body)
        async with asyncio.timeout(20):
            while (await status(api, task_id))["progress"] < (90 if is_chain else 1):
                await asyncio.sleep(0.02)
        response = await api.post(f"/api/task/{task_id}/cancel")
        assert response.status_code == 200
        told = await poll(api, task_id)
    assert told["status"] == ("SUCCESS" if is_chain else "CANCELLED")
    assert (told["resultUrl"] is None) is not is_chain


async def test_faults_are_told_as_anywhere(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    post = deserted.post
    assert refused_fields(await post("/api/task/submit", content=b"{}")) == {"#/prompt"}
    other = b'{"prompt": "a", "type": "WATERMARK_REMOVAL"}'
    assert refused_fields(await post("/api/task/submit", content=other)) == {"#/type"}
    problem(await post("/api/task/submit", content=b"no json"), 400, "MALFORMED_JSON")
    problem(await deserted.get("/api/task/nobody/status"), 404, "JOB_NOT_FOUND")
    problem(await post("/api/task/nobody/cancel"), 404, "JOB_NOT_FOUND")
    assert await started() == 0


async def test_page_of_another_site_starts_nothing(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    for path in ("/api/task/submit", "/api/task/nobody/cancel"):
        headers = {"Sec-Fetch-Site": "cross-site", "content-type": "text/plain"}
        response = await deserted.post(path, content=PLAIN.encode(), headers=headers)
        problem(response, 403, "CROSS_SITE_REQUEST")
    assert await started() == 0
