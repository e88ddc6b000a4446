"""`GET /v1/jobs`: filters, the order, and the same jobs as everywhere else."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from tests.api.contract import JOB_KEYS, problem, refused_fields
from tests.api.stage import deciding, hold, paint, read_when, removing, working
from tests.workflows.pure import image_request
from workflows.chain import removal_id
from workflows.names import IMAGE_JOB_WORKFLOW, workflow_id_for
from workflows.starting import start_options

Listed = list[dict[str, Any]]


async def list_jobs(api: httpx.AsyncClient, **filters: object) -> Listed:
    """The first page."""
    response = await api.get("/v1/jobs", params=filters)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    jobs: Listed = response.json()["jobs"]
    assert all(set(told) == JOB_KEYS for told in jobs)
    return jobs


async def until_listed(ids: list[str], api: httpx.AsyncClient, **filters: object) -> Listed:
    """The first page once it has exactly these jobs in this order: visibility lags."""
    told: Listed = []
    for _ in range(400):
        told = await list_jobs(api, **filters)
        if [job["id"] for job in told] == ids:
            return told
        await asyncio.sleep(0.05)
    raise AssertionError((ids, [(job["id"], job["state"]) for job in told]))


async def create(api: httpx.AsyncClient, **fields: object) -> str:
    response = await api.post("/v1/jobs", json={"prompt": "a lake"} | fields)
    assert response.status_code == 202, response.text
    job_id: str = response.json()["id"]
    return job_id


async def test_jobs_are_listed_newest_first_as_they_read_alone(
    api: httpx.AsyncClient, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    async with working(client, engine, paint(store)):
        ids = [await create(api, labels={"a": "b"}) for _ in range(3)]
        for job_id in ids:
            await read_when(api, job_id, "SUCCESS")
    told = await until_listed(ids[::-1], api, engine=engine, state="SUCCESS")
    for job in told:
        assert job == (await api.get(f"/v1/jobs/{job['id']}")).json()


async def test_finished_job_keeps_its_place_behind_newer_ones(
    api: httpx.AsyncClient, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    async with deciding(client):
        first, second, third = [await create(api) for _ in range(3)]
        await api.post(f"/v1/jobs/{second}/cancel")
        await read_when(api, second, "CANCELLED")
        told = await until_listed([third, second, first], api, engine=engine)
        await until_listed([second], api, engine=engine, state="CANCELLED")
    assert [job["done"] for job in told][0::2] == [False, False]


async def test_filters_narrow_the_list(api: httpx.AsyncClient, engine: str) -> None:
    low = await create(api, priority=1, labels={"customer": "42", "Ünï 'q' \"x\"": "ü"})
    high = await create(api, priority=9, labels={"customer": "43"})
    older = (await api.get(f"/v1/jobs/{low}")).json()["created_at"]
    newer = (await api.get(f"/v1/jobs/{high}")).json()["created_at"]
    everything = [high, low]
    await until_listed(everything, api, engine=engine)
    cases: list[tuple[list[str], dict[str, object]]] = [
        ([low], {"priority": 1}),
        (everything, {"priority": [1, 9]}),
        ([], {"priority": 5}),
        ([low], {"label": "customer:42"}),
        (everything, {"label": "customer"}),
        (everything, {"label": ["customer:42", "customer:43"]}),
        ([low], {"label": "Ünï 'q' \"x\""}),
        ([low], {"label": "Ünï 'q' \"x\":ü"}),
        ([], {"label": "CUSTOMER:42"}),
        ([], {"label": "customer:42", "priority": 9}),
        (everything, {"type": "TEXT_TO_IMAGE"}),
        ([], {"type": "WATERMARK_REMOVAL"}),
        (everything, {"state": "PENDING"}),
        (everything, {"state": ["PENDING", "FAILED"]}),
        ([], {"state": "PROCESSING"}),
        (everything, {"created_after": older}),
        ([high], {"created_after": newer}),
        ([], {"created_before": older}),
        ([], {"updated_before": older}),
        (everything, {"updated_before": "2027-11-01T00:00:00Z"}),
        ([], {"worker": "nobody@nowhere"}),
        ([], {"running_longer_than_seconds": 0}),
    ]
    for wanted, filters in cases:
        told = await list_jobs(api, engine=engine, **filters)
        assert [job["id"] for job in told] == wanted, filters


async def test_running_job_is_listed_by_worker_and_time(
    api: httpx.AsyncClient, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = await create(api)
        worker = (await read_when(api, job_id, "PROCESSING"))["worker"]
        await until_listed([job_id], api, engine=engine, worker=worker)
        await until_listed([job_id], api, engine=engine, running_longer_than_seconds=0.01)
        assert await list_jobs(api, engine=engine, running_longer_than_seconds=3600) == []
        go.set()
        await read_when(api, job_id, "SUCCESS")
        await until_listed([], api, engine=engine, running_longer_than_seconds=0.01)


async def test_terminated_job_is_failed_and_never_running(
    api: httpx.AsyncClient, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    async with working(client, engine, hold(asyncio.Event(), paint(store))):
        job_id = await create(api)
        await read_when(api, job_id, "PROCESSING")
        await until_listed([job_id], api, engine=engine, state="PROCESSING")
        await client.get_workflow_handle(workflow_id_for(job_id)).terminate(reason="a bad build")
        [told] = await until_listed([job_id], api, engine=engine, state="FAILED")
    assert told == (await api.get(f"/v1/jobs/{job_id}")).json()
    assert told["error"]["message"] == "terminated by an operator: a bad build"
    for state in ("PENDING", "PROCESSING", "PAUSED", "SUCCESS", "CANCELLED", "TIMEOUT_CANCELLED"):
        assert await list_jobs(api, engine=engine, state=state) == []
    after_the_end = {"updated_before": "2027-11-01T00:00:00Z"}
    assert [job["id"] for job in await list_jobs(api, engine=engine, **after_the_end)] == [job_id]
    before_the_end = {"updated_before": told["created_at"]}
    assert await list_jobs(api, engine=engine, **before_the_end) == []


async def test_run_that_outlived_its_limits_is_listed_as_such(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    job_id = uuid4().hex
    request = image_request(engine=engine)
    soon = {"execution_timeout": timedelta(seconds=1)}
    await client.start_workflow(
        IMAGE_JOB_WORKFLOW,
        request,
        task_queue=f"nobody-{engine}",
        **(start_options(job_id, request, datetime.now(UTC)) | soon),
    )
    [told] = await until_listed([job_id], api, engine=engine, state="TIMEOUT_CANCELLED")
    assert told == (await api.get(f"/v1/jobs/{job_id}")).json()
    for state in ("PENDING", "FAILED", "SUCCESS"):
        assert await list_jobs(api, engine=engine, state=state) == []


async def test_listed_chain_is_that_of_both_jobs(
    api: httpx.AsyncClient, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    wish = {"watermark": "remove", "label_terms_accepted": True}
    async with working(client, engine, paint(store)), removing(client, paint(store, "red")):
        job_id = await create(api, **wish)
        await read_when(api, job_id, "SUCCESS")
        await read_when(api, removal_id(job_id), "SUCCESS")
        ids = [removal_id(job_id), job_id]
        told = await until_listed(ids, api, engine=engine, state="SUCCESS")
    assert [job["chain"] for job in told] == ["FINALIZED", "FINALIZED"]
    [alone] = await list_jobs(api, engine=engine, type="TEXT_TO_IMAGE")
    assert alone == (await api.get(f"/v1/jobs/{job_id}")).json()
    assert alone["chain"] == "FINALIZED"


async def test_job_that_was_run_again_is_listed_once(
    api: httpx.AsyncClient, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    async with working(client, engine, paint(store)):
        job_id = await create(api)
        await read_when(api, job_id, "SUCCESS")
        removal = f"/v1/jobs/{job_id}/watermark-removal"
        terms = {"label_terms_accepted": True}
        first = (await api.post(removal, json=terms)).json()["id"]
        await api.post(f"/v1/jobs/{first}/cancel")
        await read_when(api, first, "CANCELLED")
        await until_listed([first, job_id], api, engine=engine, state=["CANCELLED", "SUCCESS"])
        assert (await api.post(removal, json=terms)).json()["id"] == first
        told = await until_listed([first, job_id], api, engine=engine, state=["PENDING", "SUCCESS"])
        assert [job["state"] for job in told] == ["PENDING", "SUCCESS"]
        await until_listed([first, job_id], api, engine=engine)
        await until_listed([], api, engine=engine, state="CANCELLED")


@pytest.mark.parametrize(
    ("parameter", "value", "pointer"),
    [
        ("state", "RUNNING", "#/query/state/0"),
        ("state", "", "#/query/state/0"),
        ("type", "VIDEO", "#/query/type/0"),
        ("engine", 'x" OR "1"="1', "#/query/engine/0"),
        ("worker", 'x" OR JobTenant="other', "#/query/worker/0"),
        ("worker", "back\\slash", "#/query/worker/0"),
        ("worker", "NUL\0", "#/query/worker/0"),
        ("priority", "10", "#/query/priority/0"),
        ("priority", "-1", "#/query/priority/0"),
        ("priority", "1_0", "#/query/priority/0"),
        ("label", "", "#/query/label/0"),
        ("label", "NUL\0", "#/query/label/0"),
        ("label", "x" * 320, "#/query/label/0"),
        ("created_after", "yesterday", "#/query/created_after"),
        ("created_before", "2027-01-01T00:00:00", "#/query/created_before"),
        ("updated_before", "", "#/query/updated_before"),
        ("running_longer_than_seconds", "-1", "#/query/running_longer_than_seconds"),
        ("running_longer_than_seconds", "nan", "#/query/running_longer_than_seconds"),
        ("running_longer_than_seconds", "1e300", "#/query/running_longer_than_seconds"),
        ("page_size", "-1", "#/query/page_size"),
        ("page_size", "many", "#/query/page_size"),
        ("page_size", "9" * 5000, "#/query/page_size"),
        ("stat", "FAILED", "#/query/stat"),
    ],
)
async def test_bad_value_is_refused_by_name(
    deserted: httpx.AsyncClient, parameter: str, value: str, pointer: str
) -> None:
    assert refused_fields(await deserted.get("/v1/jobs", params={parameter: value})) == {pointer}


async def test_refusal_says_what_is_allowed(deserted: httpx.AsyncClient) -> None:
    response = await deserted.get("/v1/jobs", params={"state": "RUNNING"})
    [fault] = problem(response, 422, "INVALID_REQUEST")["errors"]
    assert "'PENDING', 'PROCESSING'" in fault["detail"]


@pytest.mark.parametrize(
    "label", ['"', "'", "\\", "%", "_", "♡", "🌙", "a' OR 1=1 --", '") OR ("', "*", "NEAR(a b)"]
)
async def test_hostile_label_finds_its_own_job_alone(api: httpx.AsyncClient, label: str) -> None:
    await create(api, labels={"plain": "1"})
    job_id = await create(api, labels={label + uuid4().hex: label})
    [name] = (await api.get(f"/v1/jobs/{job_id}")).json()["request"]["labels"]
    await until_listed([job_id], api, label=name)
    await until_listed([job_id], api, label=f"{name}:{label}")


async def test_list_is_documented_to_tell_less_than_a_job(deserted: httpx.AsyncClient) -> None:
    document = (await deserted.get("/openapi.json")).json()
    description = document["paths"]["/v1/jobs"]["get"]["description"]
    assert "`waiting_for`" in description
    assert "`progress`" in description
