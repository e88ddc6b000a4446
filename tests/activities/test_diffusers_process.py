"""Diffusers pipelines in the process of their own that a worker starts: kills, stops, refusals."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("diffusers", reason="the diffusers extra is not installed")

from activities.engines.base import CheckpointTaken, StartedOver, StepDone
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.errors import ErrorKind, WorkError
from activities.models import GenerationParameters
from tests.activities.engine_jobs import image_of, run, serving, steps_of, stopped
from tests.activities.tiny_pipelines import job, stable_diffusion
from tests.processes import descendants_of

DIFFUSERS = "activities.engines.diffusers:DiffusersEngine"
# Importing torch takes a busy machine long.
PATIENT = StallLimits(load=120, step=60, decode=60)
STEPS = 16


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the children read."""
    model = stable_diffusion(tmp_path / "model")
    monkeypatch.setenv("DARKROOM_DIFFUSERS_MODEL", str(model))
    monkeypatch.setenv("DARKROOM_DIFFUSERS_DEVICE", "cpu")
    monkeypatch.setenv("DARKROOM_DIFFUSERS_THREADS", "1")
    return tmp_path


def work(scheduler: str) -> GenerationParameters:
    # Large enough for a command to arrive between two steps.
    size = {"width": 192, "height": 192}
    return job(steps=STEPS, scheduler=scheduler).model_copy(update=size)


async def killed(
    engine: ChildProcessEngine, parameters: GenerationParameters, scratch: Path, checkpoint: bytes
) -> list[int]:
    """Go on from the checkpoint until the child is killed, two steps later; the steps told."""
    steps: list[int] = []
    with pytest.raises(WorkError) as death:
        async with engine.open("job-7", parameters, checkpoint, scratch) as running:
            async for event in running.events():
                if isinstance(event, StepDone):
                    steps.append(event.step)
                    if len(steps) == 2:
                        for pid in descendants_of(os.getpid()):
                            os.kill(pid, signal.SIGKILL)
    assert death.value.kind in (ErrorKind.ENGINE_CRASHED, ErrorKind.OUT_OF_MEMORY)
    return steps


async def test_a_run_killed_in_its_middle_goes_on_in_another_process(environment: Path) -> None:
    async with serving(limits=PATIENT, spec=DIFFUSERS) as engine:
        for scheduler in ("euler_a", "unipc"):
            parameters = work(scheduler)
            undisturbed = image_of(await run(engine, parameters, environment))
            last = (await stopped(engine, parameters, environment, after=3))[-1]
            assert isinstance(last, CheckpointTaken)
            assert last.step < STEPS - 4
            steps = await killed(engine, parameters, environment, last.data)
            assert steps[:2] == [last.step + 1, last.step + 2]
            assert max(steps) < STEPS
            events = await run(engine, parameters, environment, last.data)
            assert not [event for event in events if isinstance(event, StartedOver)]
            assert steps_of(events) == list(range(last.step + 1, STEPS + 1))
            assert image_of(events) == undisturbed


async def test_a_refused_job_leaves_the_process_for_the_next(environment: Path) -> None:
    async with serving(limits=PATIENT, spec=DIFFUSERS) as engine:
        child = descendants_of(os.getpid())
        with pytest.raises(WorkError, match="multiples of 8") as refusal:
            await run(engine, job().model_copy(update={"width": 65}), environment)
        assert refusal.value.kind is ErrorKind.INVALID_PARAMETERS
        async with asyncio.timeout(30):
            assert steps_of(await run(engine, job(), environment)) == [1, 2, 3, 4, 5]
        assert descendants_of(os.getpid()) == child


async def test_an_engine_without_a_model_tells_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DARKROOM_DIFFUSERS_MODEL", "")
    async with serving(limits=PATIENT, spec=DIFFUSERS) as engine:
        with pytest.raises(WorkError, match="DARKROOM_DIFFUSERS_MODEL is not set") as refusal:
            await run(engine, job(), tmp_path)
        assert refusal.value.kind is ErrorKind.ENGINE_UNAVAILABLE
