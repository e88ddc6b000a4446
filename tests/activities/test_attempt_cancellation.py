"""How an attempt ends that a real server cancels, with a real engine in a real process."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from activities.artifacts import LocalArtifactStore
from activities.engine_work import EngineWork
from activities.engines.process import ChildProcessEngine
from activities.generation import GenerationActivities
from activities.models import StopReason, WorkInput, WorkResult
from activities.ownership import TemporalOwnership
from activities.scratch import Scratch
from activities.stops import StopGraces
from tests.activities.engine_jobs import parameters, serving
from tests.activities.probe import Probe, result_of
from tests.activities.probe_workflow import ProbeWorkflow
from tests.fakes import UNLABELLED
from tests.processes import until

GRACES = StopGraces(
    cancel=timedelta(seconds=0.3),
    pause=timedelta(seconds=3600),
    worker_stopping=timedelta(seconds=1),
)


@dataclass
class Studio:
    """A probe whose activity is the real one, with its store and scratch folder."""

    probe: Probe
    root: Path
    worker: Worker

    async def start(self, job_id: str = "7", **options: Any) -> WorkflowHandle[Any, Any]:
        work = WorkInput(
            job_id=job_id,
            tenant="default",
            dispatch=1,
            parameters=parameters(**{"steps": 60, "step_seconds": 0.05} | options),
        )
        return await self.probe.start("generate_image", work)

    @property
    def scratch_folders(self) -> list[Path]:
        return list((self.root / "tmp").glob("worker-*/*"))

    @property
    def stored(self) -> list[Path]:
        return [path for path in (self.root / "artifacts").rglob("*") if path.is_file()]

    async def is_at_work(self) -> None:
        await until(lambda: bool(self.scratch_folders))

    async def is_idle(self, seconds: float = 3) -> None:
        await until(lambda: not self.scratch_folders, seconds)


@asynccontextmanager
async def working(client: Client, root: Path) -> AsyncIterator[Studio]:
    scratch = Scratch(root / "tmp")
    async with serving(grace=0.3) as engine:
        activities = _activities(client, engine, root, scratch)
        probe = Probe(client, f"probe-{root}", f"probe-work-{root}")
        worker = probe.activity_worker([activities.generate_image])
        async with probe.workflow_worker(), worker:
            yield Studio(probe, root, worker)
    assert list((root / "tmp").glob("worker-*/*")) == []
    scratch.close()


def _activities(
    client: Client, engine: ChildProcessEngine, root: Path, scratch: Scratch
) -> GenerationActivities:
    store = LocalArtifactStore(root / "artifacts")
    work = EngineWork(engine, store, scratch, TemporalOwnership(client), "me", GRACES)
    return GenerationActivities(work, UNLABELLED)


async def outcome(handle: WorkflowHandle[Any, Any]) -> WorkResult:
    return WorkResult.model_validate(await result_of(handle))


async def test_a_pause_ends_at_a_checkpoint(client: Client, tmp_path: Path) -> None:
    async with working(client, tmp_path) as studio:
        handle = await studio.start()
        await studio.is_at_work()
        await handle.signal(ProbeWorkflow.wish, "pause")
        result = await outcome(handle)
        assert result.stopped is StopReason.PAUSE
        assert result.checkpoint is not None
        assert (tmp_path / "artifacts" / result.checkpoint.key).is_file()


async def test_a_stopping_worker_hands_its_job_back(client: Client, tmp_path: Path) -> None:
    async with working(client, tmp_path) as studio:
        handle = await studio.start()
        await studio.is_at_work()
        began = time.monotonic()
        await studio.worker.shutdown()
        assert time.monotonic() - began < 5
        result = await outcome(handle)
        assert result.stopped is StopReason.WORKER_STOPPING
        assert result.checkpoint is not None


async def test_a_stopping_worker_ends_an_engine_that_does_not_stop(
    client: Client, tmp_path: Path
) -> None:
    async with working(client, tmp_path) as studio:
        handle = await studio.start(fault="ignore_stop")
        await studio.is_at_work()
        await studio.worker.shutdown()
        result = await outcome(handle)
        assert (result.stopped, result.checkpoint) == (StopReason.WORKER_STOPPING, None)


@pytest.mark.parametrize("fault", ["", "hang_native"])
async def test_a_job_that_is_over_stops_its_engine_and_writes_nothing(
    client: Client, tmp_path: Path, fault: str
) -> None:
    async with working(client, tmp_path) as studio:
        handle = await studio.start(**({"fault": fault} if fault else {}))
        await studio.is_at_work()
        await handle.signal(ProbeWorkflow.wish, "close")
        await result_of(handle)
        await studio.is_idle()
        assert studio.stored == []


async def test_a_cancel_does_not_wait_for_the_pause_that_came_before(
    client: Client, tmp_path: Path
) -> None:
    async with working(client, tmp_path) as studio:
        handle = await studio.start(fault="ignore_stop")
        await studio.is_at_work()
        await handle.signal(ProbeWorkflow.wish, "pause")
        await asyncio.sleep(0.5)
        assert studio.scratch_folders
        await handle.signal(ProbeWorkflow.wish, "close")
        await result_of(handle)
        await studio.is_idle()


async def test_a_worker_that_stops_does_not_wait_for_the_pause_that_came_before(
    client: Client, tmp_path: Path
) -> None:
    async with working(client, tmp_path) as studio:
        handle = await studio.start(fault="ignore_stop")
        await studio.is_at_work()
        await handle.signal(ProbeWorkflow.wish, "pause")
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await studio.worker.shutdown()
        assert time.monotonic() - began < 5
        assert (await outcome(handle)).stopped is StopReason.PAUSE


async def test_jobs_after_cancelled_ones_get_images_of_their_own(
    client: Client, tmp_path: Path
) -> None:
    async with working(client, tmp_path) as studio:
        for number in range(6):
            lost = await studio.start(f"lost-{number}", step_seconds=0.01)
            await studio.is_at_work()
            await asyncio.sleep(number * 0.02)
            await lost.signal(ProbeWorkflow.wish, "close")
            kept = await studio.start(f"kept-{number}", step_seconds=0.001)
            result = await outcome(kept)
            assert result.artifact is not None
            assert result.artifact.key.startswith(f"jobs/kept-{number}/")
            assert result.progress is not None
            assert result.progress.step == 60
