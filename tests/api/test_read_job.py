"""GET /v1/jobs/{id}: the job as it is, in every state; waiting for a change; entity tags."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.errors import ErrorKind
from activities.models import WorkInput, WorkResult
from tests.api.contract import job, problem, refused_fields
from tests.api.stage import deciding, hold, paint, png, read_until, read_when, working
from workflows.names import workflow_id_for
from workflows.state_machine import JobState

ODD_IDS = [
    "x",
    "6d704065bd6e4b8a9c1d2e3f40516273",
    "ABC",
    "%00",
    "a%0Ab",
    "a%0d%0aX-Injected:%201",
    "..%5c..%5cetc",
    "%2e%2e",
    "a" * 5000,
    "été",
    "🦊",
    "%ff%fe",
    "job-x",
    "-x",
    "a b",
    "a;b",
    "{job_id}",
    "*",
    "' OR 1=1",
]


async def create(api: httpx.AsyncClient, **fields: Any) -> str:
    return str(job(await api.post("/v1/jobs", json={"prompt": "a"} | fields), 202)["id"])


async def test_job_is_told_from_its_first_to_its_last_state(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = await create(api)
        running = await read_until(api, job_id, lambda told: bool(told["progress"]))
        assert running["state"] == "PROCESSING"
        assert running["waiting_for"] is None
        assert running["attempt"] == 1
        assert running["worker"]
        assert running["started_at"] < running["deadline_at"]
        assert running["progress"] == {
            **{"percent": 50, "step": 15, "total_steps": 30, "phase": "step"},
            "at": running["progress"]["at"],
        }
        go.set()
        await read_when(api, job_id, "SUCCESS")
    # From here on no worker is alive.
    done = job(await api.get(f"/v1/jobs/{job_id}"), 200, JobState.SUCCESS)
    assert done["result"] == {
        "image_url": f"http://darkroom.test/v1/jobs/{job_id}/image",
        **{"media_type": "image/png", "width": 64, "height": 64, "byte_size": len(png())},
        **{"seed": done["request"]["seed"], "sha256": done["result"]["sha256"]},
        **{"has_label": False, "removal": None, "provenance": None},
    }
    assert [t["event"] for t in done["transitions"]] == ["START", "COMPLETE"]
    assert done["finished_at"] == done["updated_at"] == done["transitions"][-1]["at"]
    assert done["pending_request"] is done["waiting_for"] is done["error"] is None
    own = f"http://darkroom.test/v1/jobs/{job_id}"
    assert done["links"] == {
        "self": own,
        "image": f"{own}/image",
        "watermark-removal": f"{own}/watermark-removal",
    }


async def test_percent_is_100_with_success_and_not_before(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async def finish(input: WorkInput) -> WorkResult:
        result = await paint(store)(input)
        progress = {"percent": 97, "step": 30, "total_steps": 30, "phase": "store"}
        return WorkResult.model_validate(
            result.model_dump() | {"progress": progress | {"at": "2026-01-01T00:00:00Z"}}
        )

    async with working(client, engine, finish):
        job_id = await create(api)
        done = await read_when(api, job_id, "SUCCESS")
    assert done["progress"]["percent"] == 100


async def test_failed_job_says_why(api: httpx.AsyncClient, client: Client, engine: str) -> None:
    async def fail(input: WorkInput) -> WorkResult:
        raise RuntimeError("the lamp went out at /srv/secret")

    async with working(client, engine, fail):
        job_id = await create(api, max_attempts=1)
        failed = await read_when(api, job_id, "FAILED")
    assert failed["error"]["kind"] == ErrorKind.INTERNAL
    assert failed["error"]["retryable"] is True
    assert failed["result"] is None
    assert "Traceback" not in str(failed)


async def test_job_waits_for_an_engine_that_nobody_serves(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    async with deciding(client):
        job_id = await create(api)
        waiting = await read_until(
            api, job_id, lambda told: told["waiting_for"] == f"no worker serves the engine {engine}"
        )
    assert waiting["state"] == "PENDING"


async def test_terminated_job_is_failed_and_says_so(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    job_id = await create(deserted)
    await deserted_client.get_workflow_handle(workflow_id_for(job_id)).terminate(
        reason="out of paper"
    )
    told = job(await deserted.get(f"/v1/jobs/{job_id}"), 200, JobState.FAILED)
    assert told["error"]["message"] == "terminated by an operator: out of paper"
    assert told["transitions"][-1]["source"] == "operator"
    assert told["finished_at"]
    assert set(told["links"]) == {"self", "retry"}


async def test_job_that_starts_later_says_when(deserted: httpx.AsyncClient) -> None:
    start_at = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    response = await deserted.post("/v1/jobs", json={"prompt": "a", "start_at": start_at})
    assert "starts at " in job(response, 202)["waiting_for"]


@pytest.mark.parametrize("job_id", ODD_IDS, ids=lambda odd: ascii(odd)[:20])
@pytest.mark.parametrize(
    ("method", "rest"),
    [("GET", ""), ("GET", "/image"), ("POST", "/cancel"), ("POST", "/pause"), ("POST", "/resume")],
)
async def test_unknown_job_is_not_found_by_any_route(
    deserted: httpx.AsyncClient, method: str, rest: str, job_id: str
) -> None:
    response = await deserted.request(method, f"/v1/jobs/{job_id}{rest}")
    problem(response, 404, "JOB_NOT_FOUND")
    assert set(response.headers) == {"content-type", "content-length"}


@pytest.mark.parametrize("path", ["..%2f..%2fetc%2fpasswd", "%2e%2e%2fjobs", "a%2fb%2fc", ""])
async def test_slash_in_an_id_leads_nowhere(deserted: httpx.AsyncClient, path: str) -> None:
    problem(await deserted.get(f"/v1/jobs/{path}/"), 404, "NOT_FOUND")


async def test_workflow_of_another_type_is_no_job(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    job_id = uuid4().hex
    handle = await deserted_client.start_workflow(
        "Backup", id=workflow_id_for(job_id), task_queue="elsewhere"
    )
    problem(await deserted.get(f"/v1/jobs/{job_id}"), 404, "JOB_NOT_FOUND")
    problem(await deserted.get(f"/v1/jobs/{job_id}/image"), 404, "JOB_NOT_FOUND")
    for action in ("cancel", "pause", "resume"):
        problem(await deserted.post(f"/v1/jobs/{job_id}/{action}"), 404, "JOB_NOT_FOUND")
    assert (await handle.describe()).history_length == 2


async def test_wait_returns_at_its_limit(deserted: httpx.AsyncClient) -> None:
    job_id = await create(deserted)
    begun = time.monotonic()
    job(await deserted.get(f"/v1/jobs/{job_id}?wait=0.5"), 200, JobState.PENDING)
    assert 0.5 <= time.monotonic() - begun < 5


async def test_wait_returns_when_the_state_changes(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = await create(api)
        await read_when(api, job_id, "PROCESSING")
        waiting = asyncio.create_task(api.get(f"/v1/jobs/{job_id}?wait=60"))
        await read_until(api, job_id, lambda told: bool(told["progress"]))
        assert not waiting.done()
        go.set()
        job(await asyncio.wait_for(waiting, 10), 200, JobState.SUCCESS)


async def test_wait_for_a_finished_job_returns_at_once(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    job_id = await create(deserted)
    await deserted_client.get_workflow_handle(workflow_id_for(job_id)).terminate()
    async with asyncio.timeout(5):
        job(await deserted.get(f"/v1/jobs/{job_id}?wait=60"), 200, JobState.FAILED)


@pytest.mark.parametrize("wait", ["NaN", "inf", "-1", "-inf", "60.1", "1e999", "x", "", "1s", "٣x"])
async def test_wait_outside_of_its_limits_is_refused(
    deserted: httpx.AsyncClient, wait: str
) -> None:
    response = await deserted.get("/v1/jobs/x", params={"wait": wait})
    assert refused_fields(response) == {"#/query/wait"}


@pytest.mark.parametrize("form", ["{}", "W/{}", '"x", {}', '"x",{},"y"', ' {} , W/"z"', "*"])
async def test_answer_that_the_client_has_is_not_sent_again(
    deserted: httpx.AsyncClient, form: str
) -> None:
    url = f"/v1/jobs/{await create(deserted)}"
    tag = (await deserted.get(url)).headers["etag"]
    response = await deserted.get(url, headers={"if-none-match": form.format(tag)})
    assert response.status_code == 304
    assert response.content == b""
    assert response.headers["etag"] == tag


@pytest.mark.parametrize("form", ['"x"', "", "{}x", "*x", "W/", ",,,"])
async def test_other_entity_tags_get_the_job(deserted: httpx.AsyncClient, form: str) -> None:
    url = f"/v1/jobs/{await create(deserted)}"
    tag = (await deserted.get(url)).headers["etag"]
    job(await deserted.get(url, headers={"if-none-match": form.format(tag)}), 200)


async def test_client_that_missed_a_change_does_not_wait(deserted: httpx.AsyncClient) -> None:
    url = f"/v1/jobs/{await create(deserted)}?wait=60"
    async with asyncio.timeout(5):
        job(await deserted.get(url, headers={"if-none-match": '"older"'}), 200)


async def test_wait_without_any_change_is_not_modified(deserted: httpx.AsyncClient) -> None:
    url = f"/v1/jobs/{await create(deserted)}"
    headers = {"if-none-match": (await deserted.get(url)).headers["etag"]}
    assert (await deserted.get(f"{url}?wait=0.2", headers=headers)).status_code == 304


async def test_head_tells_what_get_tells_but_the_body(deserted: httpx.AsyncClient) -> None:
    url = f"/v1/jobs/{await create(deserted)}"
    head, get = await deserted.head(url), await deserted.get(url)
    assert head.status_code == 200
    assert head.headers == get.headers
    assert head.content == b""
