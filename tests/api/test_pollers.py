"""What many who poll their waiting jobs cost Temporal: one look at each job, and little besides."""

import asyncio
from collections import Counter

import httpx
from temporalio.client import Client
from temporalio.worker import Worker

from activities.artifacts import LocalArtifactStore
from activities.ownership import TemporalOwnership
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.counting import counting
from tests.api.stage import deciding, hold, paint, read_until, read_when
from tests.fakes import FakeWork
from tests.heartbeats import beating
from workflows.names import generate_task_queue, workflow_id_for

JOBS = 30
ROUNDS = 20
READS = JOBS * ROUNDS

OF_A_JOB = "describe_workflow_execution"
HISTORY = "get_workflow_execution_history"
SHARED = {"list_workers", "describe_task_queue", "list_workflow_executions"}


async def submit(api: httpx.AsyncClient) -> str:
    return str((await api.post("/v1/jobs", json={"prompt": "a lake"})).json()["id"])


async def poll(api: httpx.AsyncClient, job_ids: list[str]) -> list[str]:
    """All jobs at once, many times; what the last round was told."""
    told: list[str] = []
    for _ in range(ROUNDS):
        answers = await asyncio.gather(*(api.get(f"/v1/jobs/{job_id}") for job_id in job_ids))
        told = [answer.json()["waiting_for"] for answer in answers]
    return told


def only_shared(asked: Counter[str]) -> bool:
    """Whether nothing was asked for each read but the look at the job itself.

    The others are a few each second: a machine that takes minutes for this is told off.
    """
    others = {call: count for call, count in asked.items() if call not in (OF_A_JOB, HISTORY)}
    return asked[OF_A_JOB] == READS and set(others) <= SHARED and sum(others.values()) < READS / 2


async def test_pollers_of_queued_jobs_share_all_but_the_look_at_their_own(
    client: Client, store: LocalArtifactStore, engine: str
) -> None:
    own, asked = counting(client)
    work = FakeWork(TemporalOwnership(client), hold(asyncio.Event(), paint(store)))
    worker = Worker(
        await beating(client),
        task_queue=generate_task_queue(engine),
        activities=[work.generate_image],
        max_concurrent_activities=1,
    )
    async with (
        asking(create_app(own, store, ApiSettings(engines=engine))) as api,
        deciding(client),
        worker,
    ):
        busy = await submit(api)
        await read_when(api, busy, "PROCESSING")
        jobs = [await submit(api) for _ in range(JOBS)]
        # The first is told so by the line, which has them all when the last is told that.
        await read_until(api, jobs[0], lambda told: bool(told["waiting_for"] == "a free worker"))
        last = f"a free worker; about {JOBS - 1} jobs ahead"
        await read_until(api, jobs[-1], lambda told: bool(told["waiting_for"] == last))
        asked.clear()
        told = await poll(api, jobs)
        counted = asked.copy()
        for job_id in (*jobs, busy):
            await client.get_workflow_handle(workflow_id_for(job_id)).terminate()
    assert only_shared(counted), counted
    assert counted[HISTORY] == 0
    assert (told[0], told[-1]) == ("a free worker", last)


async def test_pollers_share_what_is_told_where_nobody_decides(
    deserted_client: Client, store: LocalArtifactStore, engine: str
) -> None:
    own, asked = counting(deserted_client)
    async with asking(create_app(own, store, ApiSettings(engines=engine))) as api:
        jobs = [await submit(api) for _ in range(JOBS)]
        for job_id in jobs[1:]:
            await deserted_client.get_workflow_handle(workflow_id_for(job_id)).signal("pause")
        asked.clear()
        told = await poll(api, jobs)
    assert only_shared(asked), asked
    # Once for each that has been told anything, which stands in its own history.
    assert asked[HISTORY] == JOBS - 1
    assert all("workflow workers are down" in one for one in told)
