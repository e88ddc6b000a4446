"""Event streams of a real API process: over connections that are cut, and when it ends."""

import asyncio
import random
from pathlib import Path
from uuid import uuid4

import httpx
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from tests.api.stage import hold, paint, read_when, working
from tests.api.streams import cutting, events_in, ids, listen_in_pieces, opened, transitions
from tests.end_to_end.api_process import address, serving


async def test_stream_over_connections_that_are_cut_loses_and_repeats_nothing(
    tmp_path: Path, client: Client
) -> None:
    engine, go = f"test-{uuid4().hex[:12]}", asyncio.Event()
    store = LocalArtifactStore(tmp_path / "data" / "artifacts")
    settings = {"TEMPORAL_ADDRESS": address(client), "DARKROOM_ENGINES": engine}
    with serving(tmp_path, **settings) as (_, port):
        async with (
            cutting(port, random.Random(7)) as shaky,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as api,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{shaky}", timeout=30) as far,
            working(client, engine, hold(go, paint(store))),
        ):
            job_id = (await api.post("/v1/jobs", json={"prompt": "a"})).json()["id"]
            listening = asyncio.create_task(listen_in_pieces(far, job_id, lambda: 0))
            for action, state in (("pause", "PAUSED"), ("resume", "PROCESSING")) * 2:
                await read_when(api, job_id, "PROCESSING" if action == "pause" else "PAUSED")
                await api.post(f"/v1/jobs/{job_id}/{action}")
                await read_when(api, job_id, state)
            go.set()
            events = await listening
            story = (await api.get(f"/v1/jobs/{job_id}")).json()["transitions"]
    assert ids(events) == list(range(1, len(story) + 1))
    assert transitions(events) == [told | {"job_id": job_id} for told in story]


async def test_streams_end_with_the_process(tmp_path: Path, client: Client) -> None:
    settings = {"TEMPORAL_ADDRESS": address(client), "DARKROOM_ENGINES": "nobodys"}
    with serving(tmp_path, **settings) as (process, port):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as api:
            job_id = (await api.post("/v1/jobs", json={"prompt": "a"})).json()["id"]
            async with opened(api, job_id) as response:
                process.terminate()
                # Reading on would raise if the connection were cut before the stream's end.
                assert [event async for event in events_in(response)] == []
        output, _ = await asyncio.to_thread(process.communicate, timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in output
