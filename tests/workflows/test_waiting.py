"""What a waiting job says of those before it is what then happens."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from activities.models import WorkInput, WorkResult
from tests.heartbeats import beating
from tests.workflows.behaviours import when
from tests.workflows.stage import JobHandle, Stage
from workflows.names import workflow_id_for
from workflows.state_machine import JobState


def ahead(told: str | None) -> int | None:
    """How many jobs are ahead, by what a job says; None if it says something else."""
    match = re.fullmatch(r"a free worker(?:; about (\d+) jobs ahead)?", told or "")
    return int(match[1] or 0) if match else None


async def told_by_all(stage: Stage, jobs: list[JobHandle]) -> list[int]:
    """What all say, once they agree: what they say is a moment old."""
    async with asyncio.timeout(30):
        while True:
            said = [ahead((await stage.view(one)).waiting_for) for one in jobs]
            told = [number for number in said if number is not None]
            if len(told) == len(jobs) and sorted(told) == list(range(len(jobs))):
                return told
            await asyncio.sleep(0.05)


@pytest.fixture
async def beating_stage(client: Client) -> AsyncIterator[Stage]:
    stage = Stage(await beating(client))
    yield stage
    await stage.close()


async def test_jobs_are_served_in_the_order_that_they_tell(
    beating_stage: Stage,
) -> None:
    stage, released = beating_stage, asyncio.Event()
    served: list[str] = []

    async def behave(input: WorkInput) -> WorkResult:
        served.append(workflow_id_for(input.job_id))
        return await when(released)(input)

    async with stage.deciding(), stage.working(stage.work(behave), slots=1):
        first = await stage.start()
        await stage.until(first, JobState.PROCESSING)
        jobs: list[JobHandle] = []
        asked = [*[("a", 5)] * 4, *[("b", 5)] * 2, ("a", 9), ("a", 1)]
        for tenant, priority in asked:
            jobs.append(await stage.start(tenant=tenant, priority=priority))
            await stage.until_decided(jobs[-1])
        told = await told_by_all(stage, jobs)
        released.set()
        await asyncio.gather(*(job.result() for job in jobs))
    order = [job.id for _, job in sorted(zip(told, jobs, strict=True), key=lambda one: one[0])]
    assert told[asked.index(("a", 9))] == 0
    assert served == [first.id, *order]
