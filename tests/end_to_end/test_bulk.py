"""A bulk whose API and worker are killed by SIGKILL: no job is missed, none is asked twice."""

import asyncio
import json
import signal
import urllib.request
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from tests.end_to_end.api_process import address, serving
from tests.end_to_end.worker_process import worker
from tests.workflows.pure import image_request
from workflows.bulk_messages import BulkView
from workflows.bulk_reading import read_bulk
from workflows.names import workflow_id_for
from workflows.submission import start_job

JOBS = 150


def post(port: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        assert answer.status == 202
        told: dict[str, Any] = json.load(answer)
        return told


async def cancelled(client: Client, engine: str) -> int:
    query = f'JobEngine = "{engine}" AND JobState = "CANCELLED"'
    return (await client.count_workflows(query)).count


async def when_done(client: Client, bulk_id: str) -> BulkView:
    async with asyncio.timeout(120):
        while (view := await read_bulk(client, bulk_id)).state == "RUNNING":
            await asyncio.sleep(0.1)
    return view


async def signals_of(client: Client, job_id: str) -> list[str]:
    events = client.get_workflow_handle(workflow_id_for(job_id)).fetch_history_events()
    return [
        event.workflow_execution_signaled_event_attributes.signal_name
        async for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    ]


async def test_bulk_survives_its_api_and_its_worker(client: Client, tmp_path: Path) -> None:
    engine, ids = f"e{uuid4().hex[:12]}", [uuid4().hex for _ in range(JOBS)]
    for job_id in ids:
        await start_job(client, job_id, image_request(engine=engine))
    with serving(tmp_path, TEMPORAL_ADDRESS=address(client)) as (api, port):
        body = {"engine": engine, "message": "all of them"}
        bulk_id = (await asyncio.to_thread(post, port, "/v1/bulk/cancel", body))["id"]
        api.send_signal(signal.SIGKILL)
    data_dir = tmp_path / "data"
    data_dir.mkdir(exist_ok=True)
    async with worker(client, data_dir, "--serve", "workflows") as first:
        async with asyncio.timeout(30):
            while await cancelled(client, engine) < 5:
                await asyncio.sleep(0.01)
        await first.ends(signal.SIGKILL)
    left = JOBS - await cancelled(client, engine)
    async with worker(client, data_dir, "--serve", "workflows"):
        view = await when_done(client, bulk_id)
    assert left > 0
    assert (view.state, view.progress.matched, view.progress.asked) == ("DONE", JOBS, JOBS)
    assert await cancelled(client, engine) == JOBS
    assert [await signals_of(client, job_id) for job_id in ids] == [["cancel"]] * JOBS
