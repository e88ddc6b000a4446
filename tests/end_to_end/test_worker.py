"""The real worker process against a real server: jobs survive whatever becomes of it."""

import asyncio
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from activities.models import GenerationParameters
from tests.end_to_end.worker_process import worker
from tests.processes import until
from workflows.messages import ImageJobInput, JobView
from workflows.reading import JobReader
from workflows.state_machine import JobState
from workflows.submission import start_job


@pytest.fixture
def engine() -> str:
    """An engine's name, and so a task queue, of the test's own."""
    return f"e{uuid4().hex[:12]}"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Shared by the workers of a test, as a store is."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def engines(engine: str) -> str:
    return f"procedural,{engine}=tests.faulty_engine:FaultyEngine"


async def start(client: Client, engine: str, steps: int = 3, **options: object) -> str:
    job_id = uuid4().hex
    parameters = GenerationParameters(
        prompt="a lake", width=64, height=64, num_inference_steps=steps, engine_options=options
    )
    await start_job(client, job_id, ImageJobInput(engine=engine, parameters=parameters))
    return job_id


async def job_in(client: Client, job_id: str, state: JobState, step: int = 0) -> JobView:
    """The job, once it is in the state and has done the step."""
    reader, view = JobReader(client), None
    async with asyncio.timeout(30):
        while view is None or view.state is not state or _step(view) < step:
            assert view is None or not view.state.is_terminal, view
            await asyncio.sleep(0.05)
            view = await reader.read(job_id)
    return view


async def finished(client: Client, job_id: str, seconds: float = 30) -> JobView:
    reader = JobReader(client)
    view = await reader.read(job_id)
    async with asyncio.timeout(seconds):
        while not view.state.is_terminal:
            view = await reader.read_after_change(job_id, view, timedelta(seconds=seconds))
    return view


def _step(view: JobView) -> int:
    return view.status.progress.step if view.status.progress else 0


def events_of(view: JobView) -> list[str]:
    return [str(transition.event) for transition in view.transitions]


def sha256_of(view: JobView) -> str:
    assert view.state is JobState.SUCCESS, view
    assert view.status.result is not None
    return view.status.result.artifact.sha256


def leftovers(data_dir: Path) -> list[Path]:
    return list((data_dir / "tmp").glob("worker-*"))


STEPS = 40
# Long enough for a checkpoint by the clock.
LONG: dict[str, Any] = {"steps": STEPS, "step_seconds": 0.1}


async def test_a_job_succeeds_and_its_image_is_in_the_store(
    client: Client, engine: str, data_dir: Path
) -> None:
    async with worker(client, data_dir, ENGINES=engines(engine)) as process:
        view = await finished(client, await start(client, engine))
        assert events_of(view) == ["START", "COMPLETE"]
        assert view.transitions[1].source == f"worker:{process.identity}"
        assert view.status.result is not None
        image = view.status.result.artifact
        assert (data_dir / "artifacts" / image.key).stat().st_size == image.byte_size
        assert await process.ends(signal.SIGTERM) == 0
    assert leftovers(data_dir) == []


async def test_a_stopping_worker_hands_its_job_over_and_the_image_is_the_same(
    client: Client, engine: str, data_dir: Path
) -> None:
    async with (
        worker(client, data_dir, ENGINES=engines(engine)) as first,
        worker(client, data_dir, ENGINES=engines(engine)) as second,
    ):
        undisturbed = await finished(client, await start(client, engine, STEPS))
        job_id = await start(client, engine, **LONG)
        view = await job_in(client, job_id, JobState.PROCESSING, step=5)
        leaving, other = (
            (first, second) if view.status.worker == first.identity else (second, first)
        )
        began = time.monotonic()
        assert await leaving.ends(signal.SIGTERM) == 0
        assert time.monotonic() - began < 10
        view = await finished(client, job_id)
        assert events_of(view) == ["START", "PAUSE", "RESUME", "START", "COMPLETE"]
        assert view.transitions[1].source == f"worker:{leaving.identity}"
        assert view.transitions[1].message == "the worker is stopping"
        assert view.transitions[4].source == f"worker:{other.identity}"
        assert view.status.attempt == 1
        assert sha256_of(view) == sha256_of(undisturbed)
        assert await other.ends(signal.SIGTERM) == 0
    assert leftovers(data_dir) == []


async def test_the_only_worker_records_the_hand_over_before_it_exits(
    client: Client, engine: str, data_dir: Path
) -> None:
    async with worker(client, data_dir, ENGINES=engines(engine)) as only:
        job_id = await start(client, engine, **LONG)
        await job_in(client, job_id, JobState.PROCESSING, step=3)
        assert await only.ends(signal.SIGTERM) == 0
    view = await JobReader(client).read(job_id)
    assert events_of(view) == ["START", "PAUSE", "RESUME"]
    assert view.status.checkpoint is not None
    await JobReader(client).handle(job_id).terminate()


async def test_a_result_that_comes_while_the_only_worker_stops_is_recorded(
    client: Client, engine: str, data_dir: Path
) -> None:
    async with worker(client, data_dir, ENGINES=engines(engine)) as only:
        # The stop comes during the last step, after which there may be nothing left to stop.
        job_id = await start(client, engine, steps=1, fault="slow_stop")
        await job_in(client, job_id, JobState.PROCESSING)
        assert await only.ends(signal.SIGTERM) == 0
    view = await JobReader(client).read(job_id)
    assert events_of(view) in (["START", "COMPLETE"], ["START", "PAUSE", "RESUME"])
    if not view.state.is_terminal:
        await JobReader(client).handle(job_id).terminate()


async def test_a_job_of_a_killed_worker_goes_on_elsewhere_and_history_says_why(
    client: Client, engine: str, data_dir: Path
) -> None:
    async with (
        worker(client, data_dir, ENGINES=engines(engine)) as first,
        worker(client, data_dir, ENGINES=engines(engine)) as second,
    ):
        job_id = await start(client, engine, **LONG)
        view = await job_in(client, job_id, JobState.PROCESSING, step=24)
        at_work = {first.identity: first, second.identity: second}[view.status.worker or ""]
        began = time.monotonic()
        await at_work.ends(signal.SIGKILL)
        await until_restarted(client, job_id)
        assert time.monotonic() - began < 8
        view = await finished(client, job_id)
        assert events_of(view) == ["START", "RETRY", "START", "COMPLETE"]
        assert view.transitions[1].source == "watchdog"
        assert "lost" in view.transitions[1].message
        other = second if at_work is first else first
        assert await other.ends(signal.SIGTERM) == 0
    # The dead one's folder is swept at the next start.
    async with worker(client, data_dir, ENGINES=engines(engine)) as third:
        assert len(leftovers(data_dir)) == 1
        assert await third.ends(signal.SIGTERM) == 0
    assert leftovers(data_dir) == []


async def until_restarted(client: Client, job_id: str) -> None:
    view = await JobReader(client).read(job_id)
    while events_of(view)[-2:] != ["RETRY", "START"]:
        view = await JobReader(client).read_after_change(job_id, view, timedelta(seconds=10))


async def test_a_cancel_stops_the_engine_and_leaves_no_temporary_file(
    client: Client, engine: str, data_dir: Path
) -> None:
    async with worker(client, data_dir, ENGINES=engines(engine), CANCEL_GRACE_SECONDS="0.5"):
        job_id = await start(client, engine, fault="hang_native")
        await job_in(client, job_id, JobState.PROCESSING)
        await until(lambda: bool(list((data_dir / "tmp").glob("worker-*/*"))))
        await JobReader(client).handle(job_id).signal("cancel")
        assert (await finished(client, job_id)).state is JobState.CANCELLED
        await until(lambda: not list((data_dir / "tmp").glob("worker-*/*")), 3)
        assert (await finished(client, await start(client, engine))).state is JobState.SUCCESS


async def test_an_engine_that_dies_once_costs_its_job_one_attempt(
    client: Client, engine: str, data_dir: Path, tmp_path: Path
) -> None:
    async with worker(client, data_dir, ENGINES=engines(engine)) as process:
        marker = str(tmp_path / "once")
        job_id = await start(client, engine, fault="segfault", at_step=2, once_marker=marker)
        view = await finished(client, job_id)
        assert events_of(view) == ["START", "RETRY", "START", "COMPLETE"]
        assert "killed by signal 11 (SIGSEGV)" in view.transitions[1].message
        assert view.transitions[1].source == f"worker:{process.identity}"
