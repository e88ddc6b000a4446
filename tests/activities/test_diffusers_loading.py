"""Folders that hold a pipeline, and folders that don't."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("diffusers", reason="the diffusers extra is not installed")

import torch
from safetensors.torch import load_file

from activities.engines.diffusers import DiffusersEngine
from activities.engines.diffusers_model import content_hash, load_model
from activities.engines.diffusers_settings import DiffusersSettings
from activities.errors import ErrorKind, WorkError
from tests.activities.tiny_pipelines import image_of, job, loaded, run, stable_diffusion

# Of NumPy's, about how diffusers' schedulers call it.
pytestmark = pytest.mark.filterwarnings("ignore:__array:DeprecationWarning")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return stable_diffusion(tmp_path / "model")


def refusal_of(folder: Path, **settings: str) -> str:
    engine = DiffusersEngine(DiffusersSettings(model=str(folder), **settings))
    with pytest.raises(WorkError) as refusal:
        engine.load()
    assert refusal.value.kind is ErrorKind.ENGINE_UNAVAILABLE
    assert str(folder) not in refusal.value.message
    return refusal.value.message


def rename_class(model: Path, name: object) -> None:
    index = model / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"_class_name": name}))


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    assert "does not exist" in refusal_of(tmp_path / "nowhere")


def test_a_folder_without_an_index_is_told(model: Path) -> None:
    assert "has no model_index.json" in refusal_of(model / "unet")


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense"])
def test_an_index_that_cannot_be_read_is_told(text: str, model: Path) -> None:
    (model / "model_index.json").write_text(text)
    assert "can't be read" in refusal_of(model)


@pytest.mark.parametrize(
    "name",
    [
        "StableDiffusionInpaintPipeline",
        "StableDiffusionImg2ImgPipeline",
        "StableDiffusionControlNetPipeline",
        "WanPipeline",
        "StableAudioPipeline",
        "DDPMPipeline",
    ],
)
def test_a_pipeline_of_another_trade_is_told(name: str, model: Path) -> None:
    rename_class(model, name)
    assert f"{name}, which doesn't turn text into an image" in refusal_of(model)


@pytest.mark.parametrize("name", ["NoSuchPipeline", "UNet2DConditionModel", ["custom", "Mine"]])
def test_a_pipeline_that_diffusers_does_not_have_is_told(name: object, model: Path) -> None:
    rename_class(model, name)
    assert "can't load here" in refusal_of(model)


def test_python_code_in_the_folder_is_not_run(model: Path) -> None:
    (model / "unet" / "mine.py").write_text("raise SystemExit")
    assert "holds Python code" in refusal_of(model)


@pytest.mark.parametrize(
    ("weights", "pickled"),
    [
        ("unet/diffusion_pytorch_model.safetensors", "unet/diffusion_pytorch_model.bin"),
        ("text_encoder/model.safetensors", "text_encoder/pytorch_model.bin"),
    ],
)
def test_pickled_weights_are_not_loaded(weights: str, pickled: str, model: Path) -> None:
    torch.save(load_file(model / weights), model / pickled)
    (model / weights).unlink()
    assert "weights as safetensors" in refusal_of(model)


def test_a_device_that_is_not_there_is_told(model: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    assert "no such device" in refusal_of(model, device="cuda")


def test_weights_of_a_variant_are_loaded_by_its_name(model: Path) -> None:
    for weights in list(model.rglob("*.safetensors")):
        weights.rename(weights.with_suffix(".fp16.safetensors"))
    assert "could not be loaded" in refusal_of(model)
    engine = DiffusersEngine(DiffusersSettings(model=str(model), variant="fp16", device="cpu"))
    engine.load()
    assert image_of(run(engine, job()))


def test_a_model_in_another_number_type_draws_another_picture(model: Path) -> None:
    exact = image_of(run(loaded(model), job()))
    settings = DiffusersSettings(model=str(model), device="cpu", dtype="bfloat16", threads=1)
    engine = DiffusersEngine(settings)
    engine.load()
    assert image_of(run(engine, job())) != exact


def test_the_hash_follows_what_is_loaded_and_nothing_else(model: Path) -> None:
    before = content_hash(model)
    (model / "README.md").write_text("A fine model.")
    (model / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"never loaded")
    assert content_hash(model) == before
    weights = model / "vae" / "diffusion_pytorch_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert content_hash(model) != before


def test_the_build_names_all_that_decides_on_bits(model: Path) -> None:
    build = load_model(model, DiffusersSettings(device="cpu", threads=2)).build
    assert build["torch"] == torch.__version__
    assert build["model"] == content_hash(model)
    assert build["number of threads"] == "2"
    assert build["number type"] == "float32"
    assert build["device"].startswith("cpu ")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
