"""Idempotency-Key: one job, whoever sends the request how often, and another body is refused."""

import asyncio
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from activities.archive import ArchivedJob, archive_key
from activities.artifacts import LocalArtifactStore
from activities.errors import ErrorKind
from api.idempotency import Intent
from api.schemas import CreateJobRequest
from tests.api.conftest import CountWorkflows
from tests.api.contract import job, problem, refused_fields
from tests.api.stage import paint, read_when, working
from tests.workflows.behaviours import fail_with
from workflows.job_record import JobRecord
from workflows.messages import JobView


async def send(
    api: httpx.AsyncClient, key: str, path: str = "/v1/jobs", **asked: object
) -> httpx.Response:
    """The request that is made again and again."""
    body = {"prompt": "a lake"} | asked if path == "/v1/jobs" else None
    return await api.post(path, json=body, headers={"Idempotency-Key": key})


async def test_fifty_at_once_are_one_job(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    answers = await asyncio.gather(*(send(deserted, "fifty at once") for _ in range(50)))
    told = [job(answer, 202) for answer in answers]
    assert len({one["id"] for one in told}) == 1
    assert len({one["request"]["seed"] for one in told}) == 1
    replays = [answer.headers.get("idempotency-replayed") for answer in answers]
    assert sorted(replays, key=str) == [None, *["true"] * 49]
    assert await started() == 1


async def test_key_with_another_body_is_refused(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    job(await send(deserted, "another body", seed=1), 202)
    for changed in ({"seed": 2}, {}, {"seed": 1, "width": 512}, {"seed": 1, "labels": {"a": "b"}}):
        problem(await send(deserted, "another body", **changed), 422, "IDEMPOTENCY_KEY_REUSED")
    assert await started() == 1


async def test_what_was_left_out_is_no_part_of_the_comparison(deserted: httpx.AsyncClient) -> None:
    first = job(await send(deserted, "left out"), 202)
    again = job(await send(deserted, "left out"), 202)
    assert first["request"]["seed"] == again["request"]["seed"]
    assert first["id"] == again["id"]


async def test_order_and_spaces_of_the_body_do_not_matter(deserted: httpx.AsyncClient) -> None:
    bodies = (
        '{"prompt": "a", "seed": 3}',
        '{"seed":3,"prompt":"a"}',
        '{"seed":3,"prompt":"\\u0061"}',
    )
    headers = {"Idempotency-Key": "order", "Content-Type": "application/json"}
    answers = [await deserted.post("/v1/jobs", content=body, headers=headers) for body in bodies]
    assert len({job(answer, 202)["id"] for answer in answers}) == 1


async def test_quoted_and_bare_key_are_the_same(deserted: httpx.AsyncClient) -> None:
    ids = {job(await send(deserted, key), 202)["id"] for key in ('a "b"', r'"a \"b\""')}
    assert len(ids) == 1


@pytest.mark.parametrize("key", ["", " ", "k" * 256, '"' + "k" * 256 + '"', '""'])
async def test_key_of_no_use_is_told_by_its_header(
    deserted: httpx.AsyncClient, started: CountWorkflows, key: str
) -> None:
    assert refused_fields(await send(deserted, key)) == {"#/header/Idempotency-Key"}
    assert await started() == 0


async def test_bad_body_starts_nothing_and_uses_no_key_up(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    assert refused_fields(await send(deserted, "bad first", width=1)) == {"#/width"}
    job(await send(deserted, "bad first"), 202)
    assert await started() == 1


async def test_finished_job_is_given_again_as_it_is_now(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with working(client, engine, paint(store)):
        job_id = job(await send(api, f"finished {engine}"), 202)["id"]
        await read_when(api, job_id, "SUCCESS")
    again = await send(api, f"finished {engine}")
    assert job(again, 202, None)["id"] == job_id
    assert again.json()["state"] == "SUCCESS"
    assert again.headers["location"] == f"/v1/jobs/{job_id}"


async def test_job_that_only_the_archive_knows_is_given_again(
    api: httpx.AsyncClient, tmp_path: Path, engine: str
) -> None:
    """As it is once Temporal's retention is over."""
    asked = CreateJobRequest.model_validate({"prompt": "a lake"})
    intent = Intent.of("archived", "default", asked)
    view = await archived_view(api, intent)
    store = LocalArtifactStore(tmp_path / "artifacts")
    document = ArchivedJob(run_id="r", view=view.model_dump_json())
    await store.put(archive_key(intent.job_id), document.model_dump_json().encode())
    again = await send(api, "archived")
    assert again.headers["idempotency-replayed"] == "true"
    assert job(again, 202)["id"] == intent.job_id
    problem(await send(api, "archived", seed=5), 422, "IDEMPOTENCY_KEY_REUSED")


async def archived_view(api: httpx.AsyncClient, intent: Intent) -> JobView:
    """The view of a job that nobody has in Temporal, as its archive tells it."""
    other = job(await send(api, f"another {intent.job_id}"), 202)
    request = {"parameters": {"prompt": "a lake", "seed": 1}, "fingerprint": intent.fingerprint}
    record = JobRecord(intent.job_id, other["created_at"], None)
    return record.view().model_validate(
        record.view().model_dump() | {"request": request, "updated_at": other["updated_at"]}
    )


async def test_retry_with_a_key_is_one_job_too(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    async with working(client, engine, fail_with(ErrorKind.CONTENT_REJECTED)):
        first = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        await read_when(api, first, "FAILED")
        key, path = f"retry {first}", f"/v1/jobs/{first}/retry"
        answers = await asyncio.gather(*(send(api, key, path) for _ in range(10)))
        told = [job(answer, 202) for answer in answers]
        assert len({one["id"] for one in told}) == 1
        assert told[0]["retry_of"] == first
        problem(await send(api, key), 422, "IDEMPOTENCY_KEY_REUSED")
