"""One job in a diffusers pipeline: its picture, its options, and what goes wrong."""

import importlib.util
import io
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("diffusers", reason="the diffusers extra is not installed")

import diffusers
import torch
from PIL import Image

from activities.engines.base import ImageDone, PhaseBegun, StepDone
from activities.engines.diffusers import DiffusersEngine
from activities.engines.diffusers_failures import memory_is_told
from activities.engines.diffusers_schedulers import SAMPLERS, SchedulerChoice
from activities.errors import ErrorKind, InvalidParametersError, WorkError
from activities.models import Phase
from tests.activities.tiny_pipelines import (
    broken_unet,
    broken_vae,
    flux,
    image_of,
    job,
    loaded,
    run,
    safety_checker,
    stable_diffusion,
)

# Of NumPy's, about how diffusers' schedulers call it.
pytestmark = pytest.mark.filterwarnings("ignore:__array:DeprecationWarning")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> DiffusersEngine:
    return loaded(stable_diffusion(tmp_path_factory.mktemp("models") / "sd"))


@pytest.fixture(scope="module")
def flux_engine(tmp_path_factory: pytest.TempPathFactory) -> DiffusersEngine:
    return loaded(flux(tmp_path_factory.mktemp("models") / "flux"))


def test_a_job_tells_its_steps_then_decodes_then_yields_a_png(engine: DiffusersEngine) -> None:
    events = run(engine, job(steps=3).model_copy(update={"width": 96}))
    assert [e.step for e in events[:3] if isinstance(e, StepDone)] == [1, 2, 3]
    assert events[3] == PhaseBegun(Phase.DECODE)
    image = events[4]
    assert isinstance(image, ImageDone)
    assert image.media_type == "image/png"
    with Image.open(io.BytesIO(image.data), formats=["PNG"]) as picture:
        assert picture.size == (96, 64)
        assert picture.mode == "RGB"
        assert np.asarray(picture).std() > 1


def test_the_same_parameters_give_the_same_bytes(engine: DiffusersEngine) -> None:
    assert image_of(run(engine, job())) == image_of(run(engine, job()))


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "a city"},
        {"negative_prompt": "people"},
        {"seed": 2**64 - 1},
        {"guidance_scale": 1.0},
        {"num_inference_steps": 6},
    ],
)
def test_another_parameter_gives_another_picture(
    engine: DiffusersEngine, change: dict[str, Any]
) -> None:
    other = job().model_copy(update=change)
    assert image_of(run(engine, other)) != image_of(run(engine, job()))


def test_names_and_classes_of_schedulers_mean_the_same(engine: DiffusersEngine) -> None:
    by_name = image_of(run(engine, job(scheduler="euler_a")))
    assert by_name == image_of(run(engine, job(scheduler="EulerAncestralDiscreteScheduler")))
    assert image_of(run(engine, job())) == image_of(run(engine, job(scheduler="ddim")))


def test_each_name_of_a_scheduler_draws_in_its_own_way(engine: DiffusersEngine) -> None:
    names = [name for name in SAMPLERS if name != "dpmpp_sde"]
    pictures = {image_of(run(engine, job(steps=7, scheduler=name))) for name in names}
    assert len(pictures) == len(names)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampler": "euler"}, r"'sampler'; there are: eta, scheduler"),
        ({"scheduler": "eular"}, r"'eular'; there are: ddim, .*EulerDiscreteScheduler"),
        ({"scheduler": "FlowMatchEulerDiscreteScheduler"}, "no scheduler"),
        ({"scheduler": ["euler"]}, "must be a name"),
        ({"scheduler": "euler", "eta": 0.5}, "means nothing to EulerDiscreteScheduler"),
        ({"eta": 2}, "from 0 to 1"),
        ({"eta": True}, "from 0 to 1"),
    ],
)
def test_options_that_are_not_understood_are_refused(
    engine: DiffusersEngine, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidParametersError, match=words):
        run(engine, job(**options))


def test_a_flow_model_has_its_own_scheduler_only(flux_engine: DiffusersEngine) -> None:
    with pytest.raises(InvalidParametersError, match="there are: FlowMatchEulerDiscreteScheduler"):
        run(flux_engine, job(scheduler="euler"))


def test_a_scheduler_that_cannot_resume_exactly_offers_no_checkpoint(tmp_path: Path) -> None:
    folder = stable_diffusion(tmp_path / "ipndm", scheduler=diffusers.IPNDMScheduler())
    events = run(loaded(folder), job())
    assert [event.snapshot for event in events if isinstance(event, StepDone)] == [None] * 5
    assert image_of(events)
    # It draws noise of its own, from no generator that could be restored.
    stochastic = diffusers.FlowMatchEulerDiscreteScheduler(stochastic_sampling=True)
    assert not SchedulerChoice(stochastic).resumes_exactly
    assert SchedulerChoice(diffusers.FlowMatchEulerDiscreteScheduler()).resumes_exactly


def test_a_scheduler_whose_package_is_missing_is_told(engine: DiffusersEngine) -> None:
    if importlib.util.find_spec("torchsde"):
        pytest.skip("torchsde is installed")
    with pytest.raises(WorkError, match="DPMSolverSDEScheduler needs a package") as refusal:
        run(engine, job(scheduler="dpmpp_sde"))
    assert refusal.value.kind is ErrorKind.ENGINE_UNAVAILABLE


def test_sizes_that_the_model_cannot_draw_are_refused_with_the_multiple(
    engine: DiffusersEngine, flux_engine: DiffusersEngine
) -> None:
    with pytest.raises(InvalidParametersError, match="multiples of 8 pixels"):
        run(engine, job().model_copy(update={"width": 100}))
    assert image_of(run(engine, job(steps=1).model_copy(update={"width": 104})))
    with pytest.raises(InvalidParametersError, match="multiples of 16 pixels"):
        run(flux_engine, job().model_copy(update={"height": 104}))


def test_what_the_pipeline_refuses_is_told_as_the_requests_fault(engine: DiffusersEngine) -> None:
    # A distilled schedule of 50 steps can't be cut into more.
    with pytest.raises(InvalidParametersError, match="The model refuses these parameters"):
        run(engine, job(steps=60, scheduler="lcm"))


def test_closing_a_run_stops_the_pipeline_at_its_step(engine: DiffusersEngine) -> None:
    events = engine.run(job(steps=50), None)
    assert next(events) is not None
    assert next(events) is not None
    threads = threading.active_count()
    events.close()
    assert threading.active_count() == threads - 1
    assert image_of(run(engine, job()))


def test_the_models_own_safety_checker_is_kept(tmp_path: Path) -> None:
    lenient = loaded(stable_diffusion(tmp_path / "lenient", **safety_checker(rejects=False)))
    assert image_of(run(lenient, job()))
    strict = loaded(stable_diffusion(tmp_path / "strict", **safety_checker(rejects=True)))
    with pytest.raises(WorkError, match="safety checker") as rejection:
        run(strict, job())
    assert rejection.value.kind is ErrorKind.CONTENT_REJECTED


@pytest.mark.parametrize("broken", [{"unet": broken_unet}, {"vae": broken_vae}])
def test_a_model_that_makes_nan_is_told_instead_of_a_black_picture(
    broken: dict[str, Any], tmp_path: Path
) -> None:
    components = {name: build() for name, build in broken.items()}
    engine = loaded(stable_diffusion(tmp_path / "broken", **components))
    with pytest.raises(WorkError, match="the model produced NaN") as failure:
        run(engine, job())
    assert failure.value.kind is ErrorKind.ENGINE_CRASHED


@contextmanager
def address_space_left(byte_count: int) -> Iterator[None]:
    """Let this process grow by no more than this."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + byte_count
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_memory_that_runs_out_is_told_and_the_engine_goes_on(engine: DiffusersEngine) -> None:
    large = job(steps=1).model_copy(update={"width": 768, "height": 768})
    with (
        address_space_left(24_000_000),
        pytest.raises(WorkError, match="ran out of memory") as failure,
    ):
        run(engine, large)
    assert failure.value.kind is ErrorKind.OUT_OF_MEMORY
    assert image_of(run(engine, job()))


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA: no"), MemoryError()])
def test_each_way_of_saying_out_of_memory_is_understood(error: Exception) -> None:
    with pytest.raises(WorkError) as failure, memory_is_told():
        raise error
    assert failure.value.kind is ErrorKind.OUT_OF_MEMORY


def test_another_error_of_torch_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shapes"), memory_is_told():
        raise RuntimeError("the shapes do not match")
