"""Diffusers pipelines in the process of their own that a worker starts: kills, stops, refusals."""

import os
import signal
from collections.abc import AsyncIterator
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
from tests.processes import command_of, descendants_of

DIFFUSERS = "activities.engines.diffusers:DiffusersEngine"
# Importing torch takes a busy machine long.
PATIENT = StallLimits(load=120, step=60, decode=60)
STEPS = 16


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChildProcessEngine]:
    """The engine with a pipeline, in a child; loaded once, because that takes seconds."""
    folder = tmp_path_factory.mktemp("models") / "model"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DARKROOM_DIFFUSERS_MODEL", str(stable_diffusion(folder)))
        environment.setenv("DARKROOM_DIFFUSERS_DEVICE", "cpu")
        environment.setenv("DARKROOM_DIFFUSERS_THREADS", "1")
        async with serving(limits=PATIENT, spec=DIFFUSERS) as engine:
            yield engine


def work(scheduler: str) -> GenerationParameters:
    # Large enough for a command to arrive between two steps.
    size = {"width": 192, "height": 192}
    return job(steps=STEPS, scheduler=scheduler).model_copy(update=size)


def children_of_engines() -> list[int]:
    """The engine's processes, and nobody else's: other tests have servers running."""
    return [pid for pid in descendants_of(os.getpid()) if DIFFUSERS in command_of(pid)]


async def run_until_killed(
    engine: ChildProcessEngine,
    parameters: GenerationParameters,
    scratch: Path,
    checkpoint: bytes,
    steps: list[int],
) -> None:
    """Go on from the checkpoint; two steps later the child is killed."""
    async with engine.open("job-7", parameters, checkpoint, scratch) as running:
        async for event in running.events():
            if isinstance(event, StepDone):
                steps.append(event.step)
                if len(steps) == 2:
                    for pid in children_of_engines():
                        os.kill(pid, signal.SIGKILL)


async def test_a_refused_job_leaves_the_process_for_the_next(
    engine: ChildProcessEngine, tmp_path: Path
) -> None:
    child = children_of_engines()
    with pytest.raises(WorkError, match="multiples of 8") as refusal:
        await run(engine, job().model_copy(update={"width": 65}), tmp_path)
    assert refusal.value.kind is ErrorKind.INVALID_PARAMETERS
    assert steps_of(await run(engine, job(), tmp_path)) == [1, 2, 3, 4, 5]
    assert children_of_engines() == child


@pytest.mark.parametrize("scheduler", ["euler_a", "unipc"])
async def test_a_run_killed_in_its_middle_goes_on_in_another_process(
    engine: ChildProcessEngine, scheduler: str, tmp_path: Path
) -> None:
    parameters = work(scheduler)
    undisturbed = image_of(await run(engine, parameters, tmp_path))
    last = (await stopped(engine, parameters, tmp_path, after=3))[-1]
    assert isinstance(last, CheckpointTaken)
    told: list[int] = []
    with pytest.raises(WorkError) as death:
        await run_until_killed(engine, parameters, tmp_path, last.data, told)
    assert death.value.kind in (ErrorKind.ENGINE_CRASHED, ErrorKind.OUT_OF_MEMORY)
    assert told[:2] == [last.step + 1, last.step + 2]
    assert max(told) < STEPS
    events = await run(engine, parameters, tmp_path, last.data)
    assert not [event for event in events if isinstance(event, StartedOver)]
    assert steps_of(events) == list(range(last.step + 1, STEPS + 1))
    assert image_of(events) == undisturbed


async def test_an_engine_without_a_model_tells_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DARKROOM_DIFFUSERS_MODEL", "")
    async with serving(limits=PATIENT, spec=DIFFUSERS) as engine:
        with pytest.raises(WorkError, match="DARKROOM_DIFFUSERS_MODEL is not set") as refusal:
            await run(engine, job(), tmp_path)
        assert refusal.value.kind is ErrorKind.ENGINE_UNAVAILABLE
