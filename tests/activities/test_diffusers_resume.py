"""Runs of diffusers pipelines that are stopped and go on: the same bytes, with each scheduler."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="the diffusers extra is not installed")

import torch

from activities.engines.base import ImageDone, PhaseBegun, StartedOver, StepDone
from activities.engines.diffusers import DiffusersEngine
from activities.engines.diffusers_checkpoint import pack, unpack
from activities.engines.diffusers_schedulers import RESUMES_EXACTLY, SAMPLERS
from activities.models import GenerationParameters, Phase
from tests.activities.tiny_pipelines import (
    flux,
    image_of,
    job,
    loaded,
    run,
    snapshots,
    stable_diffusion,
    stable_diffusion_3,
    stable_diffusion_xl,
)

# Of NumPy's, about how diffusers' schedulers call it.
pytestmark = pytest.mark.filterwarnings("ignore:__array:DeprecationWarning")

CPU = torch.device("cpu")
EXACT = [name for name, sampler in SAMPLERS.items() if sampler.scheduler in RESUMES_EXACTLY]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> DiffusersEngine:
    return loaded(stable_diffusion(tmp_path_factory.mktemp("models") / "sd"))


def assert_resumes_after_every_step(
    engine: DiffusersEngine, parameters: GenerationParameters
) -> None:
    checkpoints: list[bytes] = []
    for event in engine.run(parameters, None):
        if isinstance(event, StepDone):
            assert event.snapshot is not None
            checkpoints.append(event.snapshot())
    assert isinstance(event, ImageDone)
    total = len(checkpoints)
    assert total >= parameters.num_inference_steps
    for step, checkpoint in enumerate(checkpoints, start=1):
        events = run(engine, parameters, checkpoint)
        steps = [(e.step, e.total_steps) for e in events if isinstance(e, StepDone)]
        assert steps == [(left, total) for left in range(step + 1, total + 1)]
        assert events[-2] == PhaseBegun(Phase.DECODE)
        assert image_of(events) == event.data


@pytest.mark.parametrize("scheduler", EXACT)
def test_a_run_resumed_after_any_step_ends_in_the_same_bytes(
    engine: DiffusersEngine, scheduler: str
) -> None:
    assert_resumes_after_every_step(engine, job(scheduler=scheduler))


def test_noise_that_ddim_adds_is_the_same_after_a_stop(engine: DiffusersEngine) -> None:
    noisy = job(scheduler="ddim", eta=1.0)
    assert image_of(run(engine, noisy)) != image_of(run(engine, job(scheduler="ddim")))
    assert_resumes_after_every_step(engine, noisy)


@pytest.mark.parametrize("scheduler", ["euler_a", "dpmpp_2m_sde", "unipc", "heun", "sa_solver"])
def test_a_run_stopped_after_every_step_ends_in_the_same_bytes(
    engine: DiffusersEngine, scheduler: str
) -> None:
    parameters = job(scheduler=scheduler)
    checkpoint: bytes | None = None
    while True:
        events = engine.run(parameters, checkpoint)
        event = next(events)
        if not isinstance(event, StepDone):
            break
        assert event.snapshot is not None
        checkpoint = event.snapshot()
        events.close()
    assert event == PhaseBegun(Phase.DECODE)
    image = next(events)
    assert isinstance(image, ImageDone)
    assert image.data == image_of(run(engine, parameters))


@pytest.mark.parametrize(
    ("build", "scheduler"),
    [
        (stable_diffusion_xl, "EulerDiscreteScheduler"),
        (stable_diffusion_xl, "dpmpp_2m_sde"),
        (stable_diffusion_3, "FlowMatchEulerDiscreteScheduler"),
        (flux, "FlowMatchEulerDiscreteScheduler"),
    ],
)
def test_other_pipelines_resume_exactly(
    build: Callable[[Path], Path], scheduler: str, tmp_path: Path
) -> None:
    assert_resumes_after_every_step(loaded(build(tmp_path / "model")), job(scheduler=scheduler))


def test_one_job_leaves_no_trace_in_the_next(engine: DiffusersEngine) -> None:
    first = image_of(run(engine, job(scheduler="unipc")))
    for scheduler in ("pndm", "sa_solver", "unipc"):
        next(abandoned := engine.run(job(scheduler=scheduler), None))
        abandoned.close()
    assert image_of(run(engine, job(scheduler="unipc"))) == first


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a lake at sunrise"},
        {"negative_prompt": "people"},
        {"seed": 12},
        {"guidance_scale": 7.0},
        {"num_inference_steps": 6},
        {"width": 72},
        {"engine_options": {"scheduler": "euler"}},
    ],
)
def test_a_checkpoint_of_another_job_starts_over(
    engine: DiffusersEngine, change: dict[str, Any]
) -> None:
    other = job().model_copy(update=change)
    checkpoint = snapshots(engine, other)[1]
    events = run(engine, job(), checkpoint)
    assert isinstance(events[0], StartedOver)
    assert "another" in events[0].reason
    assert "parameters" in events[0].reason
    assert image_of(events) == image_of(run(engine, job()))
    assert image_of(events) != image_of(run(engine, other))


def changed(checkpoint: bytes, **fields: Any) -> bytes:
    point = unpack(checkpoint, CPU)
    assert point is not None
    return pack(dataclasses.replace(point, **fields))


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("torch", r"another torch \(9\.9, here 2\."),
        ("number of threads", r"another number of threads \(9\.9, here 1\)"),
        ("device", r"another device \(9\.9, here cpu"),
        ("model", "another model, so"),
    ],
)
def test_a_checkpoint_of_another_build_starts_over_and_says_which(
    engine: DiffusersEngine, part: str, reason: str
) -> None:
    checkpoint = snapshots(engine, job())[1]
    point = unpack(checkpoint, CPU)
    assert point is not None
    foreign = changed(checkpoint, fingerprint={**point.fingerprint, part: "9.9"})
    first = next(iter(engine.run(job(), foreign)))
    assert isinstance(first, StartedOver)
    assert re.search(reason, first.reason)


def test_a_pipeline_that_loops_otherwise_starts_over(engine: DiffusersEngine) -> None:
    foreign = changed(snapshots(engine, job())[1], total_steps=9)
    events = run(engine, job(), foreign)
    assert isinstance(events[0], StartedOver)
    assert [e.step for e in events if isinstance(e, StepDone)] == [1, 2, 3, 4, 5]
    assert image_of(events) == image_of(run(engine, job()))


def test_a_damaged_checkpoint_starts_over(engine: DiffusersEngine) -> None:
    checkpoint = snapshots(engine, job())[1]
    flipped = bytearray(checkpoint)
    flipped[-100] ^= 1
    for broken in (b"", b"nonsense", checkpoint[:-1], checkpoint[:40], bytes(flipped)):
        first = next(iter(engine.run(job(), broken)))
        assert isinstance(first, StartedOver)
        assert "damaged" in first.reason


def test_a_checkpoint_holds_no_prompt_and_stays_small(engine: DiffusersEngine) -> None:
    for checkpoint in snapshots(engine, job(scheduler="unipc")):
        assert b"sunset" not in checkpoint
        assert len(checkpoint) < 16_000
