"""A deploy under load: each worker is replaced in turn, and no job notices."""

import asyncio
import signal
from datetime import timedelta
from itertools import groupby, pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

from activities.engines.procedural import ProceduralEngine
from activities.models import GenerationParameters
from tests.end_to_end.undisturbed import undisturbed_sha256
from tests.end_to_end.watched_engines import STEP_LOG, ComputedStep, computed_steps
from tests.end_to_end.worker_process import WorkerProcess, worker
from workflows.messages import ImageJobInput, JobView
from workflows.reading import JobReader
from workflows.state_machine import JobState
from workflows.submission import start_job

JOBS = 16
STEPS = 60
SLOTS = 2
GRACE_SECONDS = 20


class Load:
    """The jobs of this test, and what is known of them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reader = JobReader(client)
        self._ids: list[str] = []

    async def submit(self, engine: str) -> None:
        """Start all jobs, each with a seed of its own."""
        for seed in range(JOBS):
            self._ids.append(uuid4().hex)
            request = ImageJobInput(engine=engine, parameters=parameters(seed))
            await start_job(self._client, self._ids[-1], request)

    async def views(self) -> list[JobView]:
        """All jobs as they are now."""
        return await asyncio.gather(*(self._reader.read(job_id) for job_id in self._ids))

    async def until_busy(self, process: WorkerProcess) -> None:
        """Return when the worker is in the middle of as many jobs as it takes."""
        async with asyncio.timeout(60):
            while sum(_is_amid(view, process) for view in await self.views()) < SLOTS:
                await asyncio.sleep(0.05)

    async def finished(self) -> list[JobView]:
        """All jobs once all are over."""
        async with asyncio.timeout(90):
            return await asyncio.gather(*(self._finished(job_id) for job_id in self._ids))

    async def _finished(self, job_id: str) -> JobView:
        view = await self._reader.read(job_id)
        while not view.state.is_terminal:
            view = await self._reader.read_after_change(job_id, view, timedelta(seconds=30))
        return view


def parameters(seed: int) -> GenerationParameters:
    return GenerationParameters(
        prompt="a lighthouse", width=256, height=192, num_inference_steps=STEPS, seed=seed
    )


def undisturbed(seed: int, engine: str) -> str:
    """The hash of the image that nothing came between."""
    return undisturbed_sha256(ProceduralEngine(), engine, parameters(seed))


def _is_amid(view: JobView, process: WorkerProcess) -> bool:
    """Begun, and far from its end: whatever stops it now stops it between two steps.

    More than half of the way, so that two jobs are both on it at some time, however they started.
    """
    progress = view.status.progress
    is_here = view.state is JobState.PROCESSING and view.status.worker == process.identity
    return is_here and progress is not None and 2 <= progress.step <= STEPS * 3 // 4


def hand_backs(view: JobView) -> list[str]:
    """Who handed the job back; each time it was resumed at once."""
    story = view.transitions
    for at, after in pairwise(story):
        assert (at.event == "PAUSE") == (after.event == "RESUME"), view
        if at.event == "PAUSE":
            assert (at.message, after.from_state) == ("the worker is stopping", "PAUSED")
    return [t.source for t in story if t.event == "PAUSE"]


def assert_went_on(steps: list[ComputedStep], stops: int) -> None:
    """Each process took over where the last one stopped, but for the step in hand."""
    runs = [[s.step for s in run] for _, run in groupby(steps, key=lambda step: step.pid)]
    assert len(runs) <= stops + 1
    assert (runs[0][0], runs[-1][-1]) == (1, STEPS)
    assert all(run == list(range(run[0], run[-1] + 1)) for run in runs), runs
    assert all(after[0] in (before[-1], before[-1] + 1) for before, after in pairwise(runs)), runs


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Shared by the workers, as a store is."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


async def test_workers_are_replaced_in_turn_and_no_job_loses_an_attempt_or_a_step(
    client: Client, data_dir: Path, tmp_path: Path
) -> None:
    engine, log = f"e{uuid4().hex[:12]}", tmp_path / "steps"
    settings = {
        "ENGINES": f"{engine}=tests.end_to_end.watched_engines:ToldEngine",
        "GENERATE_SLOTS": str(SLOTS),
        "GRACE_SECONDS": str(GRACE_SECONDS),
        STEP_LOG.removeprefix("DARKROOM_"): str(log),
    }
    load = Load(client)
    async with (
        worker(client, data_dir, **settings) as first,
        worker(client, data_dir, **settings) as second,
    ):
        await load.submit(engine)
        await load.until_busy(first)
        assert await first.ends(signal.SIGTERM, GRACE_SECONDS) == 0
        async with worker(client, data_dir, **settings) as third:
            await load.until_busy(second)
            assert await second.ends(signal.SIGTERM, GRACE_SECONDS) == 0
            async with worker(client, data_dir, **settings) as fourth:
                views = await load.finished()
                assert await fourth.ends(signal.SIGTERM) == 0
            assert await third.ends(signal.SIGTERM) == 0
    assert {view.state for view in views} == {JobState.SUCCESS}
    assert {view.status.attempt for view in views} == {1}
    assert not [t for view in views for t in view.transitions if t.event in ("RETRY", "FAIL")]
    given_back = {source for view in views for source in hand_backs(view)}
    assert given_back == {f"worker:{first.identity}", f"worker:{second.identity}"}
    steps = computed_steps(log)
    for seed, view in enumerate(views):
        assert_went_on([s for s in steps if s.seed == seed], len(hand_backs(view)))
        assert view.status.result is not None
        assert view.status.result.artifact.sha256 == undisturbed(seed, engine)
    assert not list((data_dir / "tmp").glob("worker-*"))
