"""Real workers for one test, with work that behaves as the test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import httpx
from PIL import Image
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from activities.artifacts import ArtifactStore, put_image
from activities.models import AttemptHeartbeat, Phase, Progress, StopReason, WorkInput, WorkResult
from activities.ownership import TemporalOwnership
from tests.fakes import Behaviour, FakeRemoval, FakeWork
from workflows.deciding import workflow_worker
from workflows.names import POSTPROCESS_TASK_QUEUE, generate_task_queue

_THROTTLE = timedelta(milliseconds=50)


def png(colour: str = "teal") -> bytes:
    """A small picture."""
    file = BytesIO()
    Image.new("RGB", (64, 64), colour).save(file, "PNG")
    return file.getvalue()


def paint(store: ArtifactStore, colour: str = "teal") -> Behaviour:
    """Work that ends at once, with an image."""

    async def work(input: WorkInput) -> WorkResult:
        artifact = await put_image(store, input.job_id, png(colour), "image/png", (64, 64))
        return WorkResult(artifact=artifact, worker="fake")

    return work


def hold(go: asyncio.Event, then: Behaviour) -> Behaviour:
    """Work that shows half its progress and waits; stops when it is asked to."""

    async def work(input: WorkInput) -> WorkResult:
        progress = Progress(
            percent=50, step=15, total_steps=30, phase=Phase.STEP, at=datetime.now(UTC)
        )
        beat = AttemptHeartbeat(progress=progress, idle_seconds=0, checkpoint=None, load=0)
        try:
            while not go.is_set():
                activity.heartbeat(beat)
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            return WorkResult(stopped=StopReason.PAUSE, progress=progress, worker="fake")
        result = await then(input)
        return result.model_copy(update={"progress": progress})

    return work


@asynccontextmanager
async def deciding(client: Client) -> AsyncIterator[None]:
    """A workflow worker, and nobody who works."""
    async with workflow_worker(client):
        yield


@asynccontextmanager
async def working(client: Client, engine: str, behaviour: Behaviour) -> AsyncIterator[FakeWork]:
    """A workflow worker, and a worker for one engine."""
    work = FakeWork(TemporalOwnership(client), behaviour)
    async with (
        deciding(client),
        Worker(
            client,
            task_queue=generate_task_queue(engine),
            activities=[work.generate_image],
            max_heartbeat_throttle_interval=_THROTTLE,
            default_heartbeat_throttle_interval=_THROTTLE,
        ),
    ):
        yield work


@asynccontextmanager
async def removing(client: Client, behaviour: Behaviour) -> AsyncIterator[FakeWork]:
    """A worker for removals, beside one that decides."""
    work = FakeWork(TemporalOwnership(client), behaviour)
    async with Worker(
        client,
        task_queue=POSTPROCESS_TASK_QUEUE,
        activities=[FakeRemoval(work).remove_watermark],
        max_heartbeat_throttle_interval=_THROTTLE,
        default_heartbeat_throttle_interval=_THROTTLE,
    ):
        yield work


async def read_until(
    api: httpx.AsyncClient, job_id: str, condition: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The job once the condition holds; fails if that takes long."""
    async with asyncio.timeout(20):
        while True:
            told: dict[str, Any] = (await api.get(f"/v1/jobs/{job_id}")).json()
            if condition(told):
                return told
            await asyncio.sleep(0.02)


async def read_when(api: httpx.AsyncClient, job_id: str, state: str) -> dict[str, Any]:
    """The job once it is in the state."""
    return await read_until(api, job_id, lambda told: bool(told["state"] == state))
