"""Whatever stands in Temporal or in the archive, a job is told as far as it can be read."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RawValue, SearchAttributePair, TypedSearchAttributes
from temporalio.worker import Worker

from activities.artifacts import LocalArtifactStore, put_image
from activities.models import GenerationParameters
from activities.ownership import TemporalOwnership
from activities.refs import ArtifactRef
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import job, problem
from tests.api.stage import deciding, hold, paint, png, read_when
from tests.fakes import FakeWork
from workflows.job_record import JobRecord, initial_memo
from workflows.messages import ImageJobInput, JobResult
from workflows.names import generate_task_queue, workflow_id_for
from workflows.search_attributes import JOB_STATE
from workflows.state_machine import JobEvent, JobState

UNKNOWN = RawValue(Payload(metadata={"encoding": b"of/anybodys-own"}, data=b"x"))


def raw_json(text: bytes) -> RawValue:
    """What the SDK itself would not write."""
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text))


NO_JSON = raw_json(b"\xff{")
SURROGATE_OPTION = raw_json(rb'{"parameters":{"prompt":"a","engine_options":{"x":"\ud800"}}}')
SURROGATE_WORKER = raw_json(rb'{"worker":"\ud800","attempt":2}')
FAR = "9999-12-31T23:59:59-23:59"
EARLY = "0001-01-01T00:00:00+23:59"
NAIVE = "2026-01-01T00:00:00"
START = {
    **{"sequence": 1, "at": FAR, "from_state": "PENDING", "to_state": "PROCESSING"},
    **{"event": "START", "source": "worker:x", "message": "claimed"},
}
REQUEST = {"parameters": {"prompt": "a"}}
DAMAGE: list[tuple[dict[str, Any], str]] = [
    *(
        ({key: junk}, key)
        for key in ("request", "status", "transition-0001")
        for junk in ("junk", 7, ["x"], {"attempt": "x", "at": 1}, UNKNOWN, NO_JSON)
    ),
    ({"request": REQUEST | {"engine": 'x"y'}}, "request"),
    ({"request": SURROGATE_OPTION}, "request"),
    ({"request": REQUEST, "status": SURROGATE_WORKER}, "status"),
    ({"transition-0001": START, "transition-0002": "junk"}, "transition-0002"),
]


async def start(
    client: Client,
    memo: Mapping[str, Any],
    state: str | None = None,
    queue: str = "darkroom",
    job_id: str = "",
) -> WorkflowHandle[Any, Any]:
    """A job as anybody can start it."""
    stored = [SearchAttributePair(JOB_STATE, state)] if state else []
    return await client.start_workflow(
        "ImageJobWorkflow",
        id=workflow_id_for(job_id or uuid4().hex),
        task_queue=queue,
        memo=memo,
        search_attributes=TypedSearchAttributes(stored),
    )


def path_of(handle: WorkflowHandle[Any, Any]) -> str:
    return f"/v1/jobs/{handle.id.removeprefix('job-')}"


@pytest.mark.parametrize(("memo", "lost"), DAMAGE, ids=lambda value: ascii(value)[:40])
async def test_damaged_record_is_told_as_far_as_it_can_be_read(
    deserted: httpx.AsyncClient, deserted_client: Client, memo: dict[str, Any], lost: str
) -> None:
    handle = await start(deserted_client, memo)
    words = f"a part of this job's record can't be read: {lost}"
    response = await deserted.get(path_of(handle))
    assert response.status_code == 200
    told = response.json()
    assert words in told["waiting_for"]
    assert path_of(handle).endswith(told["id"])
    # A control call has nothing else to go by, and must not fail either.
    answer = await deserted.post(f"{path_of(handle)}/cancel")
    assert answer.status_code == 202
    assert answer.json()["pending_request"] == "cancel"
    await handle.terminate(reason="enough")
    ended = (await deserted.get(path_of(handle))).json()
    assert ended["state"] == "FAILED"
    assert ended["error"]["message"] == "terminated by an operator: enough"


async def test_readable_fields_of_a_damaged_status_are_told(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    status = {"attempt": 2, "worker": 7, "result": "junk"}
    handle = await start(deserted_client, {"request": REQUEST, "status": status})
    told = job(await deserted.get(path_of(handle)), 200, JobState.PENDING)
    assert (told["attempt"], told["worker"], told["result"]) == (2, None, None)
    assert told["request"]["prompt"] == "a"
    await handle.terminate()


@pytest.mark.parametrize("state", [*JobState, None, "JUNK"])
async def test_search_attribute_tells_the_state_that_the_record_does_not(
    deserted: httpx.AsyncClient, deserted_client: Client, state: str | None
) -> None:
    memo = {"request": REQUEST, "transition-0001": "junk"}
    handle = await start(deserted_client, memo, state)
    expected = JobState(state) if state in set(JobState) else JobState.PENDING
    told = job(await deserted.get(path_of(handle)), 200, expected)
    assert told["transitions"] == []
    assert "can't be read" in (told["error"] or {"message": told["waiting_for"]})["message"]
    image = await deserted.get(f"{path_of(handle)}/image")
    assert image.json()["code"] == ("ARTIFACT_LOST" if state == "SUCCESS" else "NO_IMAGE")
    await handle.terminate()


@pytest.mark.parametrize("at", [FAR, EARLY, NAIVE])
async def test_times_outside_of_the_calendar_are_told(
    deserted: httpx.AsyncClient, deserted_client: Client, at: str
) -> None:
    status = {"started_at": at, "startable_at": at, "deadline_at": at}
    for events in ({}, {"transition-0001": START | {"at": at}}):
        handle = await start(deserted_client, {"request": REQUEST, "status": status} | events)
        told = job(await deserted.get(path_of(handle)), 200)
        assert told["started_at"][:4] in ("9999", "0001", "2026")
        await handle.terminate()
    if at != NAIVE:
        handle = await start(deserted_client, {"request": REQUEST | {"start_at": at}})
        job(await deserted.get(path_of(handle)), 200)
        await handle.terminate()


@pytest.mark.parametrize("queue", ['x"y', "x'y", "x\\y", 'x" OR TaskQueue="darkroom', "é", "%"])
async def test_queue_of_an_odd_name_is_looked_up(
    deserted: httpx.AsyncClient, deserted_client: Client, queue: str
) -> None:
    handle = await start(deserted_client, {"request": REQUEST}, queue=queue)
    told = job(await deserted.get(path_of(handle)), 200)
    assert "workflow workers are down" in told["waiting_for"]
    await handle.terminate()


async def test_result_that_an_operator_made_up_leaves_the_job_readable(
    api: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    work = FakeWork(TemporalOwnership(client), hold(asyncio.Event(), paint(store)))
    queue = generate_task_queue(engine)
    async with Worker(client, task_queue=queue, activities=[work.generate_image]):
        async with deciding(client):
            job_id = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
            await read_when(api, job_id, "PROCESSING")
        # Nobody decides any more, and what an operator says is the attempt's result.
        workflow_id = workflow_id_for(job_id)
        await client.get_async_activity_handle(
            workflow_id=workflow_id, run_id=None, activity_id="attempt-1"
        ).complete("junk")
        told = job(await api.get(f"/v1/jobs/{job_id}"), 200, JobState.PROCESSING)
        assert told["progress"] is None
        await client.get_workflow_handle(workflow_id).terminate()


@pytest.mark.parametrize("key", ["../../etc/passwd", "", "/etc/passwd", "a\0b", "jobs/x/é.png"])
async def test_recorded_key_that_is_none_is_a_lost_image(
    deserted: httpx.AsyncClient, deserted_client: Client, key: str
) -> None:
    handle = await start(deserted_client, finished(key, "image/png"), "SUCCESS")
    job(await deserted.get(path_of(handle)), 200, JobState.SUCCESS)
    problem(await deserted.get(f"{path_of(handle)}/image"), 410, "ARTIFACT_LOST")
    await handle.terminate()


@pytest.mark.parametrize("media_type", ["💥", "image/png\r\nx: y", "text/html"])
async def test_recorded_type_that_is_no_images_is_a_lost_image(
    deserted: httpx.AsyncClient, deserted_client: Client, media_type: str
) -> None:
    handle = await start(deserted_client, finished("jobs/x/0.png", media_type), "SUCCESS")
    problem(await deserted.get(f"{path_of(handle)}/image"), 410, "ARTIFACT_LOST")
    await handle.terminate()


async def test_copy_of_a_removal_that_is_only_known_by_its_id_is_on_record(
    deserted_client: Client, store: LocalArtifactStore, tmp_path: Path
) -> None:
    first = uuid4().hex
    kept = await put_image(store, f"{first}-removal", png(), "image/png", (64, 64))
    memo = {**finished(kept.key, kept.media_type, kept), "request": "junk"}
    handle = await start(deserted_client, memo, "SUCCESS", job_id=f"{first}-removal")
    async with asking(create_app(deserted_client, store, ApiSettings())) as api:
        told = await api.get(f"{path_of(handle)}/image")
    assert (told.status_code, told.content) == (200, png())
    records = tmp_path / "artifacts" / "records" / first
    assert len(await asyncio.to_thread(lambda: list(records.iterdir()))) == 1
    await handle.terminate()


def finished(key: str, media_type: str, kept: ArtifactRef | None = None) -> dict[str, Any]:
    """The memo of a job that succeeded, with an image of this key, or one that is there."""
    request = ImageJobInput(parameters=GenerationParameters(prompt="a"))
    record = JobRecord("x", datetime.now(UTC), request)
    for event in (JobEvent.START, JobEvent.COMPLETE):
        record.apply(event, at=datetime.now(UTC), source="operator", message="a test")
    artifact = ArtifactRef(
        key=key, sha256="0" * 64, media_type=media_type, byte_size=1, width=1, height=1
    )
    record.update(result=JobResult(artifact=kept or artifact, seed=0))
    return initial_memo(request) | record.changed_memo()


@pytest.mark.parametrize(
    "document",
    [b"", b"{}", b"junk", b"\xff", b'{"run_id":"x","view":"junk"}', b'{"run_id":"x","view":"{}"}'],
)
async def test_job_whose_archive_is_damaged_is_not_found(
    deserted_client: Client, store: LocalArtifactStore, tmp_path: Path, document: bytes
) -> None:
    job_id = uuid4().hex
    file = tmp_path / "artifacts" / "jobs" / job_id / "job.json"
    await asyncio.to_thread(file.parent.mkdir, parents=True)
    await asyncio.to_thread(file.write_bytes, document)
    async with asking(create_app(deserted_client, store, ApiSettings())) as api:
        problem(await api.get(f"/v1/jobs/{job_id}"), 404, "JOB_NOT_FOUND")
        problem(await api.get(f"/v1/jobs/{job_id}/image"), 404, "JOB_NOT_FOUND")
        problem(await api.post(f"/v1/jobs/{job_id}/cancel"), 404, "JOB_NOT_FOUND")
