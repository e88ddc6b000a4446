"""The default image engine: landscapes drawn by formula, without a model and without a GPU."""

import hashlib
import json
from collections.abc import Iterator

import numpy as np
import PIL
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load, save

from activities.engines.base import (
    Capabilities,
    ImageDone,
    LocalEvent,
    PhaseBegun,
    StartedOver,
    StepDone,
)
from activities.errors import InvalidParametersError
from activities.imaging.landscape.frame import Frame
from activities.imaging.landscape.noise import U8
from activities.imaging.landscape.recipe import compose
from activities.imaging.landscape.refinement import noisy_canvas, refine
from activities.imaging.landscape.scene import Painting
from activities.imaging.stills import encode_png
from activities.models import GenerationParameters, Phase

# Raised with every change that moves a pixel, so that no checkpoint goes on in another style.
ENGINE_VERSION = 1

_SIZES = range(64, 2048 + 1)
_STEPS = range(1, 150 + 1)
# No header of ours comes near this; a damaged length must not make us read megabytes as JSON.
_LONGEST_HEADER = 1 << 16

_DAMAGED = "The checkpoint is damaged, so the picture was begun again."
_FOREIGN = (
    "The checkpoint belongs to other parameters or to another version of the engine, "
    "so the picture was begun again."
)


class ProceduralEngine:
    """Stands in for an image model: it draws landscapes and understands a few dozen words.

    No model is behind it. A hash of the prompts and the seed decides on the scene, and words such
    as "night" or "海" steer it. In everything else it keeps a model's contract: a canvas of noise
    is refined step by step, more steps give a cleaner picture, and a run can stop after any step
    and go on elsewhere. The same parameters give the same bytes, also across a stop.
    """

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(seed=True, progress=True, checkpoint=True, targeted_cancel=True)

    def load(self) -> None:
        """Have Pillow find its PNG codec now, and not in the first job."""
        Image.preinit()

    def run(
        self, parameters: GenerationParameters, checkpoint: bytes | None
    ) -> Iterator[LocalEvent]:
        """Yield one `StepDone` for each step left, then the image.

        A `snapshot` is of the live canvas: it is valid only until the next event is asked for.
        """
        _refuse_what_cannot_be_drawn(parameters)
        run = _Run(parameters)
        if checkpoint is not None and (problem := run.go_on_from(checkpoint)):
            yield StartedOver(problem)
        while run.step < run.total_steps:
            run.advance()
            yield StepDone(run.step, run.total_steps, run.snapshot)
        yield PhaseBegun(Phase.DECODE)
        yield ImageDone(encode_png(run.canvas), "image/png")


class _Run:
    """One picture in the making: the scene to reach, and the canvas on its way there."""

    def __init__(self, parameters: GenerationParameters) -> None:
        recipe = compose(
            parameters.prompt,
            parameters.negative_prompt,
            parameters.guidance_scale,
            parameters.seed,
        )
        self._fingerprint = fingerprint_of(parameters)
        self._salt = recipe.dice.word("refinement")
        frame = Frame(parameters.width, parameters.height)
        self._height = frame.height
        self._painting = Painting(recipe, frame)
        self.canvas = noisy_canvas(frame, self._salt)
        self.step = 0
        self.total_steps = parameters.num_inference_steps

    def advance(self) -> None:
        self.step += 1
        # Painting costs as much as many steps, so that the steps share it: evenly, and early
        # enough for the last third to clear away the sketch that stood in. It follows from the
        # step alone, so that a run which goes on sees what an undisturbed one saw.
        self._painting.paint_until(self._height * self.step * 3 // (2 * self.total_steps) + 1)
        refine(self.canvas, self._painting.picture, self._salt, self.step, self.total_steps)

    def snapshot(self) -> bytes:
        metadata = {
            "step": str(self.step),
            "fingerprint": self._fingerprint,
            "seal": _seal_of(self.step, self.canvas),
        }
        return save({"canvas": self.canvas}, metadata=metadata)

    def go_on_from(self, checkpoint: bytes) -> str | None:
        """Take over the canvas and the step of a checkpoint, or say why that can't be."""
        metadata = _metadata_of(checkpoint)
        if metadata is None:
            return _DAMAGED
        if metadata.get("fingerprint") != self._fingerprint:
            return _FOREIGN
        step = _step_in(metadata.get("step"), self.total_steps)
        canvas = _canvas_in(checkpoint, self.canvas.shape)
        if step is None or canvas is None or metadata.get("seal") != _seal_of(step, canvas):
            return _DAMAGED
        self.step, self.canvas = step, canvas
        return None


def fingerprint_of(parameters: GenerationParameters) -> str:
    """What must be equal for a run to go on: the parameters, and all code that makes pixels."""
    parts = [ENGINE_VERSION, np.__version__, PIL.__version__, parameters.model_dump()]
    # Escaped to ASCII, because a prompt may hold what UTF-8 can't.
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


def _seal_of(step: int, canvas: U8) -> str:
    """Binds a canvas to its step: one wrong bit would go on into the image unseen."""
    digest = hashlib.sha256(str(step).encode("ascii"))
    digest.update(canvas.data)
    return digest.hexdigest()


def _refuse_what_cannot_be_drawn(parameters: GenerationParameters) -> None:
    for key in sorted(parameters.engine_options):
        raise InvalidParametersError(
            f"Unknown engine option {key!r}: the procedural engine has no options."
        )
    if parameters.width not in _SIZES or parameters.height not in _SIZES:
        raise InvalidParametersError("Width and height must be 64 to 2048 pixels.")
    if parameters.num_inference_steps not in _STEPS:
        raise InvalidParametersError("The number of steps must be 1 to 150.")


def _metadata_of(checkpoint: bytes) -> dict[str, object] | None:
    """The `__metadata__` of a safetensors header: 8 bytes of its length, then JSON."""
    length = int.from_bytes(checkpoint[:8], "little")
    header = checkpoint[8 : 8 + length]
    if len(checkpoint) < 8 or length > _LONGEST_HEADER or len(header) < length:
        return None
    try:
        fields = json.loads(header)
    # Damage may leave anything here, also bytes that are no text or brackets without end.
    except (ValueError, RecursionError):
        return None
    metadata = fields.get("__metadata__") if isinstance(fields, dict) else None
    return metadata if isinstance(metadata, dict) else None


def _step_in(text: object, total_steps: int) -> int | None:
    steps = {str(step): step for step in range(1, total_steps + 1)}
    return steps.get(text) if isinstance(text, str) else None


def _canvas_in(checkpoint: bytes, shape: tuple[int, ...]) -> U8 | None:
    try:
        canvas = load(checkpoint).get("canvas")
    # A header that parses may still promise bytes that are not there.
    except (SafetensorError, ValueError, KeyError):
        return None
    if canvas is None or canvas.dtype != np.uint8 or canvas.shape != shape:
        return None
    return np.array(canvas)
