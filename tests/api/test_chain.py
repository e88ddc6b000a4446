"""The chain over HTTP: its state in every answer, its images, and who may have which copy."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.errors import ErrorKind
from tests.api.conftest import CountWorkflows
from tests.api.contract import job, problem
from tests.api.stage import hold, paint, png, read_until, read_when, removing, working
from tests.fakes import Behaviour
from tests.workflows.behaviours import fail_with
from workflows.names import workflow_id_for

REMOVE = {"prompt": "a", "watermark": "remove", "label_terms_accepted": True}
ACCEPTED = {"label_terms_accepted": True}

Json = dict[str, Any]


@pytest.fixture
async def generated(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> str:
    """A job that succeeded and has no successor."""
    async with working(client, engine, paint(store)):
        job_id: str = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        await read_when(api, job_id, "SUCCESS")
    return job_id


@pytest.fixture
async def finalized(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> Json:
    """The first job of a chain that is complete, as it is told then."""
    async with working(client, engine, paint(store)), removing(client, paint(store, "white")):
        job_id = job(await api.post("/v1/jobs", json=REMOVE), 202)["id"]
        return await read_until(api, job_id, has_chain("FINALIZED"))


def has_chain(state: str) -> Callable[[Json], bool]:
    """Whether a job tells this state of its chain."""
    return lambda told: bool(told["chain"] == state)


async def ask(api: httpx.AsyncClient, job_id: str) -> httpx.Response:
    """Ask for the copy without the label."""
    return await api.post(f"/v1/jobs/{job_id}/watermark-removal", json=ACCEPTED)


async def test_both_jobs_tell_the_chain(api: httpx.AsyncClient, finalized: Json) -> None:
    second = (await api.get(f"/v1/jobs/{finalized['successor_id']}")).json()
    assert (finalized["state"], second["state"], second["chain"]) == (
        "SUCCESS",
        "SUCCESS",
        "FINALIZED",
    )
    assert (finalized["type"], second["type"]) == ("TEXT_TO_IMAGE", "WATERMARK_REMOVAL")
    assert (second["predecessor_id"], second["successor_id"]) == (finalized["id"], None)
    assert second["request"]["prompt"] == "a"
    assert "removal" not in second["request"]
    assert "watermark-removal" not in finalized["links"] | second["links"]


async def test_entity_tag_changes_with_the_chain(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go, seen = asyncio.Event(), {}
    async with (
        working(client, engine, paint(store)),
        removing(client, hold(go, paint(store, "white"))),
    ):
        job_id = job(await api.post("/v1/jobs", json=REMOVE), 202)["id"]
        for state in ("PROCESSING_WATERMARK", "FINALIZED"):
            await read_until(api, job_id, has_chain(state))
            seen[state] = (await api.get(f"/v1/jobs/{job_id}")).headers["etag"]
            go.set()
    assert seen["PROCESSING_WATERMARK"] != seen["FINALIZED"]


async def test_final_image_is_the_last_finished_one(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with (
        working(client, engine, paint(store)),
        removing(client, hold(go, paint(store, "white"))),
    ):
        job_id = job(await api.post("/v1/jobs", json=REMOVE), 202)["id"]
        told = await read_when(api, job_id, "SUCCESS")
        members = [job_id, told["successor_id"]]
        for member in members:
            response = await api.get(f"/v1/jobs/{member}/image?final=true")
            assert (response.status_code, response.content) == (200, png())
        go.set()
        await read_until(api, job_id, has_chain("FINALIZED"))
    for member in members:
        response = await api.get(f"/v1/jobs/{member}/image?final=true")
        assert (response.status_code, response.content) == (200, png("white"))
    assert (await api.get(f"/v1/jobs/{job_id}/image")).content == png()


async def test_final_image_of_a_job_without_one_is_refused(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    job_id = job(await api.post("/v1/jobs", json=REMOVE), 202)["id"]
    problem(await api.get(f"/v1/jobs/{job_id}/image?final=true"), 409, "NO_IMAGE")
    await client.get_workflow_handle(workflow_id_for(job_id)).terminate(reason="the test is over")


async def test_removal_can_be_asked_for_later_and_is_one_job_however_often(
    api: httpx.AsyncClient, client: Client, generated: str, store: LocalArtifactStore
) -> None:
    before = (await api.get(f"/v1/jobs/{generated}")).json()
    assert (before["chain"], before["successor_id"]) == (None, None)
    assert before["links"]["watermark-removal"].endswith(f"/{generated}/watermark-removal")
    answers = await asyncio.gather(*(ask(api, generated) for _ in range(10)))
    told = [job(answer, 202) for answer in answers]
    assert len({one["id"] for one in told}) == 1
    assert answers[0].headers["location"] == f"/v1/jobs/{told[0]['id']}"
    async with working(client, "nobody", paint(store)), removing(client, paint(store)) as removal:
        await read_until(api, generated, has_chain("FINALIZED"))
        again = job(await ask(api, generated), 202)
    assert (again["id"], again["state"]) == (told[0]["id"], "SUCCESS")
    assert len(removal.inputs) == 1
    assert removal.inputs[0].removal is not None
    assert removal.inputs[0].removal.asked_by == "api:default"


@pytest.mark.parametrize("end", ["FAILED", "CANCELLED"])
async def test_removal_that_ended_without_a_copy_can_be_tried_again(
    api: httpx.AsyncClient, client: Client, generated: str, store: LocalArtifactStore, end: str
) -> None:
    failing: Behaviour = fail_with(ErrorKind.LABEL_NOT_FOUND, "no label")
    never = hold(asyncio.Event(), paint(store))
    async with (
        working(client, "nobody", paint(store)),
        removing(client, failing if end == "FAILED" else never),
    ):
        removal = job(await ask(api, generated), 202)["id"]
        if end == "CANCELLED":
            await read_when(api, removal, "PROCESSING")
            job(await api.post(f"/v1/jobs/{removal}/cancel"), 200)
        await read_when(api, removal, end)
        told = (await api.get(f"/v1/jobs/{generated}")).json()
        assert (told["chain"], told["state"]) == ("REMOVAL_FAILED", "SUCCESS")
    async with working(client, "nobody", paint(store)), removing(client, paint(store, "white")):
        again = job(await ask(api, generated), 202)
        assert (again["id"], again["done"]) == (removal, False)
        await read_when(api, removal, "SUCCESS")
    assert (await api.get(f"/v1/jobs/{generated}")).json()["chain"] == "FINALIZED"


async def test_removal_whose_copy_was_lost_is_run_again(
    api: httpx.AsyncClient,
    client: Client,
    engine: str,
    finalized: Json,
    store: LocalArtifactStore,
    tmp_path: Path,
) -> None:
    removal = finalized["successor_id"]
    [file] = (tmp_path / "artifacts/jobs" / removal).glob("*.png")
    file.unlink()
    problem(await api.get(f"/v1/jobs/{removal}/image"), 410, "ARTIFACT_LOST")
    async with working(client, engine, paint(store)), removing(client, paint(store, "white")):
        again = job(await ask(api, finalized["id"]), 202)
        assert (again["id"], again["done"]) == (removal, False)
        await read_when(api, removal, "SUCCESS")
    assert (await api.get(f"/v1/jobs/{removal}/image")).content == png("white")


async def test_removal_needs_a_generated_image(
    api: httpx.AsyncClient, client: Client, finalized: Json, tmp_path: Path
) -> None:
    refused = problem(await ask(api, finalized["successor_id"]), 409, "NOT_REMOVABLE")
    assert "itself the removal" in refused["detail"]
    waiting = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
    problem(await ask(api, waiting), 409, "NOT_REMOVABLE")
    await client.get_workflow_handle(workflow_id_for(waiting)).terminate(reason="over")
    problem(await ask(api, "no-such-job"), 404, "JOB_NOT_FOUND")
    problem(await api.get(f"/v1/jobs/{waiting}-removal"), 404, "JOB_NOT_FOUND")


async def test_removal_that_there_is_stays_the_answer_when_its_source_is_lost(
    api: httpx.AsyncClient, finalized: Json, tmp_path: Path
) -> None:
    [file] = (tmp_path / "artifacts/jobs" / finalized["id"]).glob("*.png")
    file.unlink()
    told = job(await ask(api, finalized["id"]), 202)
    assert (told["id"], told["state"]) == (finalized["successor_id"], "SUCCESS")
    [copy] = (tmp_path / "artifacts/jobs" / told["id"]).glob("*.png")
    copy.unlink()
    problem(await ask(api, finalized["id"]), 410, "ARTIFACT_LOST")


async def test_lost_image_has_no_removal(
    api: httpx.AsyncClient, generated: str, tmp_path: Path
) -> None:
    [file] = (tmp_path / "artifacts").rglob("*.png")
    file.unlink()
    problem(await ask(api, generated), 410, "ARTIFACT_LOST")
    problem(await api.get(f"/v1/jobs/{generated}-removal"), 404, "JOB_NOT_FOUND")


@pytest.mark.parametrize(
    "accepted", [{}, *({"label_terms_accepted": said} for said in (False, 1, 1.0, "true", None))]
)
async def test_terms_must_be_accepted(
    deserted: httpx.AsyncClient, started: CountWorkflows, accepted: Json
) -> None:
    asked = {"prompt": "a", "watermark": "remove"} | accepted
    told = problem(await deserted.post("/v1/jobs", json=asked), 422, "INVALID_REQUEST")
    assert [fault["pointer"] for fault in told["errors"]] == ["#/label_terms_accepted"]
    later = await deserted.post("/v1/jobs/any/watermark-removal", json=accepted)
    told = problem(later, 422, "INVALID_REQUEST")
    assert [fault["pointer"] for fault in told["errors"]] == ["#/label_terms_accepted"]
    assert await started() == 0


async def test_who_is_given_the_copy_is_on_record_and_once_a_day(
    api: httpx.AsyncClient, finalized: Json, tmp_path: Path
) -> None:
    records = tmp_path / "artifacts" / "records" / finalized["id"]
    tag = (await api.get(f"/v1/jobs/{finalized['id']}/image")).headers["etag"]
    assert not records.exists()
    for path in (finalized["successor_id"], finalized["id"]):
        await api.get(f"/v1/jobs/{path}/image?final=true")
    [file] = records.iterdir()
    told = json.loads(file.read_text())
    assert (told["job_id"], told["removal_job_id"]) == (finalized["id"], finalized["successor_id"])
    assert (told["delivered_to"], told["address"]) == ("api:default", "127.0.0.1")
    assert told["sha256"] != tag.strip('"')


async def test_nobody_is_on_record_who_was_given_no_copy(
    api: httpx.AsyncClient, finalized: Json, tmp_path: Path
) -> None:
    path = f"/v1/jobs/{finalized['successor_id']}/image"
    looked = await api.head(path)
    tag = looked.headers["etag"]
    known = await api.get(path, headers={"If-None-Match": tag})
    assert (looked.status_code, known.status_code) == (200, 304)
    assert not (tmp_path / "artifacts" / "records").exists()


async def test_no_copy_is_given_without_a_record(
    client: Client, api: httpx.AsyncClient, finalized: Json, tmp_path: Path, engine: str
) -> None:
    (tmp_path / "artifacts" / "records").write_text("no folder")
    path = f"/v1/jobs/{finalized['successor_id']}/image"
    problem(await api.get(path), 503, "STORE_UNAVAILABLE")
    assert (await api.get(f"/v1/jobs/{finalized['id']}/image")).status_code == 200


async def test_removal_that_an_operator_terminated_has_failed(
    client: Client, generated: str, api: httpx.AsyncClient
) -> None:
    removal = job(await ask(api, generated), 202)["id"]
    assert (await api.get(f"/v1/jobs/{generated}")).json()["chain"] == "GENERATED"
    await client.get_workflow_handle(workflow_id_for(removal)).terminate(reason="over")
    told = (await api.get(f"/v1/jobs/{generated}")).json()
    assert (told["chain"], told["successor_id"]) == ("REMOVAL_FAILED", removal)
