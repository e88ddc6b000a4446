"""Listening to a job: its story from the beginning or from where a client was, then live."""

import asyncio
import random
from datetime import UTC, datetime

import httpx
import pytest
from temporalio import activity
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.models import AttemptHeartbeat, Phase, Progress, WorkInput, WorkResult
from tests.api.contract import problem, refused_fields
from tests.api.stage import deciding, hold, paint, read_until, read_when, removing, working
from tests.api.streams import (
    Event,
    Serving,
    create,
    events_in,
    ids,
    listen_in_pieces,
    listen_to,
    opened,
    transitions,
)
from tests.fakes import Behaviour
from workflows.names import workflow_id_for

REMOVE = {"prompt": "a", "watermark": "remove", "label_terms_accepted": True}


async def disturb(http: httpx.AsyncClient, job_id: str, times: int) -> None:
    """Pause and resume a job at work, which is three transitions each time."""
    for _ in range(times):
        await read_when(http, job_id, "PROCESSING")
        await http.post(f"/v1/jobs/{job_id}/pause")
        await read_when(http, job_id, "PAUSED")
        await http.post(f"/v1/jobs/{job_id}/resume")
    await read_when(http, job_id, "PROCESSING")


async def story_of(http: httpx.AsyncClient, job_id: str) -> list[dict[str, object]]:
    told = (await http.get(f"/v1/jobs/{job_id}")).json()
    return [transition | {"job_id": job_id} for transition in told["transitions"]]


def climb(go: asyncio.Event, then: Behaviour) -> Behaviour:
    """Work whose progress grows with each heartbeat."""

    async def work(input: WorkInput) -> WorkResult:
        step = 0
        while not go.is_set():
            step += 1
            at = datetime.now(UTC)
            progress = Progress(percent=50, step=step, total_steps=1000, phase=Phase.STEP, at=at)
            activity.heartbeat(
                AttemptHeartbeat(progress=progress, idle_seconds=0, checkpoint=None, load=0)
            )
            await asyncio.sleep(0.02)
        return await then(input)

    return work


async def test_finished_job_is_told_from_its_beginning(
    served: Serving, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with working(client, engine, paint(store)):
        job_id = await create(served.http)
        await read_when(served.http, job_id, "SUCCESS")
    async with opened(served.http, job_id) as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        text = (await response.aread()).decode()
    assert text.startswith("retry: ")
    events = await listen_to(served.http, job_id)
    assert transitions(events) == await story_of(served.http, job_id)
    assert ids(events) == [event.told["sequence"] for event in events]
    assert events[-1].told["to_state"] == "SUCCESS"


@pytest.mark.parametrize("is_header", [True, False])
async def test_story_goes_on_after_the_last_event_that_a_client_had(
    served: Serving, client: Client, is_header: bool
) -> None:
    async with deciding(client):
        job_id = await create(served.http)
        await served.http.post(f"/v1/jobs/{job_id}/pause")
        await served.http.post(f"/v1/jobs/{job_id}/cancel")
        await read_when(served.http, job_id, "CANCELLED")

    async def after(last: str) -> list[Event]:
        if is_header:
            # What the address says is older than what the client has learnt since.
            return await listen_to(served.http, job_id, last, last_event_id="0")
        return await listen_to(served.http, job_id, last_event_id=last)

    assert [ids(await after(last)) for last in ("0", "1")] == [[1, 2], [2]]
    async with opened(served.http, job_id, "2") as response:
        assert response.status_code == 204


async def test_transitions_are_told_live_with_progress_in_between(
    served: Serving, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    heard: list[Event] = []
    job_id = await create(served.http)
    async with opened(served.http, job_id) as response, asyncio.timeout(30):
        assert response.status_code == 200
        async with working(client, engine, climb(go, paint(store))):
            async for event in events_in(response):
                heard.append(event)
                if sum(event.kind == "progress" for event in heard) == 2:
                    go.set()
    steps = [event.told["step"] for event in heard if event.kind == "progress"]
    assert steps == sorted(set(steps))
    assert set(heard[1].told) == {"percent", "step", "total_steps", "phase", "at"}
    assert [told["event"] for told in transitions(heard)] == ["START", "COMPLETE"]
    assert [heard[0].kind, heard[-1].kind] == ["transition", "transition"]
    assert transitions(heard) == await story_of(served.http, job_id)


async def test_progress_that_stands_still_is_told_once(
    served: Serving, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with working(client, engine, hold(go, paint(store))):
        job_id = await create(served.http)
        listening = asyncio.create_task(listen_to(served.http, job_id))
        await disturb(served.http, job_id, 1)
        go.set()
        events = await listening
    told = [event.told for event in events if event.kind == "progress"]
    assert [one for i, one in enumerate(told) if one not in told[:i]] == told


async def test_every_transition_comes_once_and_in_order_however_often_a_client_reconnects(
    served: Serving, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go, choose = asyncio.Event(), random.Random(5)
    async with working(client, engine, hold(go, paint(store))):
        job_id = await create(served.http)
        listeners = [
            asyncio.create_task(
                listen_in_pieces(served.http, job_id, lambda: choose.randrange(1, 4))
            )
            for _ in range(5)
        ]
        await disturb(served.http, job_id, 4)
        go.set()
        heard = await asyncio.gather(*listeners)
    story = await story_of(served.http, job_id)
    assert len(story) == 14
    for events in heard:
        assert transitions(events) == story
        assert ids(events) == list(range(1, 15))


async def test_chain_is_followed_to_its_end_wherever_a_client_was(
    served: Serving, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with (
        working(client, engine, paint(store)),
        removing(client, hold(go, paint(store, "white"))),
    ):
        job_id = await create(served.http, **REMOVE)
        live = asyncio.create_task(listen_to(served.http, job_id, final="true"))
        pieces = asyncio.create_task(listen_in_pieces(served.http, job_id, lambda: 1, final="true"))
        await read_until(
            served.http,
            f"{job_id}-removal",
            lambda told: told.get("state") == "PROCESSING",
        )
        go.set()
        heard = [await live, await pieces]
    first = await story_of(served.http, job_id)
    story = first + await story_of(served.http, f"{job_id}-removal")
    assert [told["to_state"] for told in story].count("SUCCESS") == 2
    for events in heard:
        assert transitions(events) == story
        assert ids(events) == list(range(1, len(story) + 1))
    for last in range(len(story)):
        events = await listen_to(served.http, job_id, str(last), final="true")
        assert transitions(events) == story[last:]
    assert transitions(await listen_to(served.http, job_id)) == first


async def test_chain_of_a_job_without_successor_ends_with_it(
    served: Serving, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with working(client, engine, paint(store)):
        job_id = await create(served.http)
        events = await listen_to(served.http, job_id, final="true")
    assert transitions(events) == await story_of(served.http, job_id)
    async with opened(served.http, job_id, str(len(events)), final="true") as response:
        assert response.status_code == 204
    response = await served.http.get(f"/v1/jobs/{job_id}/events?final=true&last_event_id=9")
    assert refused_fields(response) == {"#/query/last_event_id"}


async def test_terminated_job_ends_with_a_transition_of_its_own(
    served: Serving, client: Client
) -> None:
    job_id = await create(served.http)
    async with opened(served.http, job_id) as response, asyncio.timeout(30):
        await client.get_workflow_handle(workflow_id_for(job_id)).terminate(reason="no use")
        [last] = [event async for event in events_in(response)]
    assert (last.id, last.told["to_state"], last.told["source"]) == ("1", "FAILED", "operator")
    assert "no use" in last.told["message"]
    assert transitions(await listen_to(served.http, job_id)) == [last.told]


async def test_unknown_job_is_refused(served: Serving) -> None:
    for job_id in ("no-such-job", "NO JOB"):
        response = await served.http.get(f"/v1/jobs/{job_id}/events")
        problem(response, 404, "JOB_NOT_FOUND")


@pytest.mark.parametrize("last", ["-1", "+1", "1.0", "1_0", "x", "1/2", "9" * 5000, "7"])
async def test_id_that_was_never_given_is_refused(served: Serving, last: str) -> None:
    job_id = await create(served.http)
    path = f"/v1/jobs/{job_id}/events"
    by_query = await served.http.get(path, params={"last_event_id": last})
    assert refused_fields(by_query) == {"#/query/last_event_id"}
    by_header = await served.http.get(path, headers={"Last-Event-ID": last})
    assert refused_fields(by_header) == {"#/header/Last-Event-ID"}


async def test_head_tells_the_headers_and_ends(served: Serving) -> None:
    job_id = await create(served.http)
    response = await served.http.head(f"/v1/jobs/{job_id}/events")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "text/event-stream"
