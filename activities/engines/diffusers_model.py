"""A text-to-image pipeline, loaded from a local folder; nothing is ever downloaded."""

import hashlib
import inspect
import json
import logging
import platform
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import diffusers
import PIL
import torch
import transformers

from activities.engines.diffusers_failures import memory_is_told
from activities.engines.diffusers_settings import DiffusersSettings, unavailable
from activities.errors import InvalidParametersError

_INDEX = "model_index.json"
_CALL = frozenset(
    ("prompt", "width", "height", "num_inference_steps", "generator", "latents", "output_type")
) | {"callback_on_step_end"}
# What a pipeline of another trade asks for: a picture to change, or frames to fill.
_OTHER_TRADES = frozenset(("image", "images", "mask_image", "control_image", "video", "num_frames"))
# These take pictures to look at, and do without.
_PICTURE_IS_OPTIONAL = frozenset(("Flux2Pipeline", "Flux2KleinPipeline"))
# Whose loop keeps nothing from step to step but latents and scheduler: each was killed at every
# step and gave the same bytes.
_RESUMES_EXACTLY = frozenset(
    (
        "StableDiffusionPipeline",
        "StableDiffusionXLPipeline",
        "StableDiffusion3Pipeline",
        "FluxPipeline",
    )
)
_READ_BY_LOADERS = frozenset((".json", ".txt", ".model", ".jinja", ".safetensors"))
# The features of a CPU by which the kernels of torch and oneDNN are chosen.
_CPU_FEATURES = ("avx", "amx", "fma", "f16c", "sse4", "asimd", "sve", "bf16")

logger = logging.getLogger("darkroom.engine.diffusers")


@dataclass(frozen=True)
class Model:
    """A pipeline on its device.

    `scheduler` is the one that the folder asks for; each job runs with one of its own. Sizes must
    be multiples of `multiple` pixels. `build` names all that decides on the result's bits, except
    for the job itself.
    """

    pipeline: Any
    scheduler: Any
    device: torch.device
    threads: int
    multiple: int
    build: Mapping[str, str]

    @property
    def resumes_exactly(self) -> bool:
        """Whether this class of pipeline is known to go on from the middle with the same bits."""
        return type(self.pipeline).__name__ in _RESUMES_EXACTLY

    @property
    def call_parameters(self) -> frozenset[str]:
        """What the pipeline's call understands."""
        return frozenset(inspect.signature(self.pipeline.__call__).parameters)

    def refuse_size(self, width: int, height: int) -> None:
        """Raise `InvalidParametersError` for a size that the model can't draw."""
        if width % self.multiple or height % self.multiple:
            raise InvalidParametersError(
                f"Width and height must be multiples of {self.multiple} pixels for this model."
            )


def load_model(folder: Path, settings: DiffusersSettings) -> Model:
    """Load the pipeline in the folder; raises `WorkError` (`ENGINE_UNAVAILABLE`)."""
    _refuse_unsuitable(folder)
    device, threads = _device(settings.device), _make_deterministic(settings.threads)
    dtype = _dtype(settings.dtype, device)
    # The disk is read once for both, and hashing sets the interpreter free.
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(content_hash, folder)
        pipeline = _pipeline(folder, dtype, settings.variant or None)
        with memory_is_told():
            pipeline.to(device)
        build = _build(device, dtype, threads, digest.result())
    logger.info("loaded %s on %s, %s, %d threads", type(pipeline).__name__, device, dtype, threads)
    return Model(pipeline, pipeline.scheduler, device, threads, _multiple(pipeline), build)


def content_hash(folder: Path) -> str:
    """SHA-256 of all files that a loader may read, names and whole contents.

    Whole, because a merged fine-tune may differ from its base in a few layers that a sample would
    miss. It takes about a second per gigabyte, beside the loading. Weights in other formats, which
    are never loaded here, are left out.
    """
    digest = hashlib.sha256()
    for path in sorted(_files_of(folder)):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def _files_of(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.suffix in _READ_BY_LOADERS and path.is_file():
            yield path


def _refuse_unsuitable(folder: Path) -> None:
    if not folder.is_dir():
        _refuse("does not exist")
    if not (folder / _INDEX).is_file():
        _refuse(f"is not a pipeline's: it has no {_INDEX}")
    if next(folder.rglob("*.py"), None) is not None:
        _refuse("holds Python code, which is not run here")
    try:
        name = json.loads((folder / _INDEX).read_bytes())["_class_name"]
    except (ValueError, KeyError, TypeError):
        _refuse(f"has an {_INDEX} that can't be read")
    _refuse_other_trades(str(name))


def _refuse_other_trades(name: str) -> None:
    kind = getattr(diffusers, name, None)
    # One whose requirements are missing has a stand-in that understands nothing.
    if not isinstance(kind, type) or not issubclass(kind, diffusers.DiffusionPipeline):
        _refuse(f"holds a {name}, which diffusers {diffusers.__version__} can't load here")
    understood = set(inspect.signature(kind.__call__).parameters)
    other = _OTHER_TRADES & understood if name not in _PICTURE_IS_OPTIONAL else frozenset()
    if other or not understood >= _CALL:
        _refuse(f"holds a {name}, which doesn't turn text into an image step by step")


def _pipeline(folder: Path, dtype: torch.dtype, variant: str | None) -> Any:
    # Bars drawn into a log are no lines.
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    try:
        pipeline = diffusers.DiffusionPipeline.from_pretrained(
            folder, dtype=dtype, variant=variant, local_files_only=True, use_safetensors=True
        )
    # OSError: a file is missing, safetensors also. The others: it holds something else.
    except (OSError, ValueError, ImportError) as error:
        logger.exception("the pipeline could not be loaded")
        raise unavailable(
            "The pipeline in the folder of DARKROOM_DIFFUSERS_MODEL could not be loaded; it must "
            "be whole, with weights as safetensors. The worker's log says more."
        ) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _multiple(pipeline: Any) -> int:
    """Pixels per latent, times the latents that a transformer takes as one."""
    scale = int(pipeline.vae_scale_factor) if hasattr(pipeline, "vae_scale_factor") else 8
    transformer = getattr(pipeline, "transformer", None)
    if transformer is None:
        return scale
    patch = getattr(transformer.config, "patch_size", 1)
    # Those with a patch of 1, such as Flux, pack two by two latents beforehand.
    return scale * max(2, patch if isinstance(patch, int) else 2)


def _device(name: str) -> torch.device:
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if has[kind]))
    if not has[name]:
        raise unavailable(f"DARKROOM_DIFFUSERS_DEVICE is {name}, and there is no such device here.")
    return torch.device(name)


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        name = "float32" if device.type == "cpu" else "float16"
    return getattr(torch, name)


def _make_deterministic(threads: int | None) -> int:
    """The same bits each time, as far as torch can; returns the number of threads."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    if threads is not None:
        torch.set_num_threads(threads)
    return int(torch.get_num_threads())


def _build(device: torch.device, dtype: torch.dtype, threads: int, digest: str) -> dict[str, str]:
    return {
        "torch": torch.__version__,
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
        "Pillow": PIL.__version__,
        "model": digest,
        "device": _device_name(device),
        "number type": str(dtype).removeprefix("torch."),
        "number of threads": str(threads),
    }


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return f"{torch.cuda.get_device_name(device)} {major}.{minor} CUDA {torch.version.cuda}"
    return f"{device.type} {_cpu_name()} {torch.backends.cpu.get_cpu_capability()}"


def _cpu_name() -> str:
    """The processor's model and those of its features that choose a kernel."""
    cpu_info = Path("/proc/cpuinfo")
    if not cpu_info.exists():
        return platform.machine()
    fields: dict[str, str] = {}
    for line in cpu_info.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    features = sorted(flag for flag in flags if flag.startswith(_CPU_FEATURES))
    short = hashlib.sha256(" ".join(features).encode()).hexdigest()[:8]
    return f"{fields.get('model name', platform.machine())} {short}"


def _refuse(what: str) -> NoReturn:
    raise unavailable(f"The folder of DARKROOM_DIFFUSERS_MODEL {what}.")
