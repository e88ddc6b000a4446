"""One call of a pipeline, from the first step or from a checkpoint, told step by step."""

import functools
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from activities.engines.base import ImageDone, LocalEvent, PhaseBegun, StartedOver, StepDone
from activities.engines.diffusers_checkpoint import Checkpoint, pack
from activities.engines.diffusers_failures import memory_is_told, not_a_number
from activities.engines.diffusers_lockstep import Tell, in_lockstep
from activities.engines.diffusers_model import Model
from activities.engines.diffusers_order import Order, order_for
from activities.engines.diffusers_schedulers import Journal
from activities.errors import ErrorKind, InvalidParametersError, WorkError
from activities.imaging.stills import encode_png
from activities.models import GenerationParameters, Phase

_LONGEST_REASON = 300

_CANNOT_GO_ON = "This pipeline can't go on from a checkpoint, so the picture was begun again."


class _CannotGoOnError(Exception):
    """The pipeline doesn't take up its loop where the checkpoint has left it."""


def run_job(
    model: Model, parameters: GenerationParameters, checkpoint: bytes | None
) -> Generator[LocalEvent, None, None]:
    """Yield one `StepDone` for each step left, then the image; raises `WorkError`.

    A step is one evaluation of the model; some schedulers make two for each that was asked for.
    A `snapshot` is valid only until the next event is asked for: until then the pipeline stands
    still in its callback.
    """
    order = order_for(model, parameters)
    point = order.read(checkpoint) if checkpoint is not None else None
    if isinstance(point, str):
        yield StartedOver(point)
        point = None
    try:
        yield from in_lockstep(functools.partial(_draw, order, point))
    # It is noticed before the first step is told.
    except _CannotGoOnError:
        yield StartedOver(_CANNOT_GO_ON)
        yield from in_lockstep(functools.partial(_draw, order, None))


def _draw(order: Order, point: Checkpoint | None, tell: Tell[LocalEvent]) -> None:
    # The number belongs to a thread, and decides on the bits.
    torch.set_num_threads(order.model.threads)
    # The generator below is what counts; this one is for code that forgets about it.
    torch.manual_seed(order.parameters.seed)
    with memory_is_told():
        pixels = _Run(order, point, tell).pixels()
    _refuse_other_size(pixels, order)
    tell(ImageDone(encode_png(pixels), "image/png"))


class _Run:
    """The pipeline at work, with a scheduler and a generator of its own."""

    def __init__(self, order: Order, point: Checkpoint | None, tell: Tell[LocalEvent]) -> None:
        self._order = order
        self._point = point
        self._tell = tell
        self._step = point.step if point else 0
        self._generator = _generator_of(order.parameters.seed, point)
        self._journal = Journal(point.scheduler if point else None, self._step)
        self._scheduler = order.scheduler.start(self._journal)

    def pixels(self) -> npt.NDArray[np.uint8]:
        """Run to the end; the image as height × width × RGB."""
        if self._point is not None and self._step == self._point.total_steps:
            self._tell(PhaseBegun(Phase.DECODE))
        result = self._call()
        image = result.images[0]
        if not np.isfinite(image).all():
            raise not_a_number()
        if any(getattr(result, "nsfw_content_detected", None) or ()):
            raise WorkError(
                ErrorKind.CONTENT_REJECTED, "The model's own safety checker rejected the image."
            )
        return np.asarray((image * 255).round().astype(np.uint8))

    def _call(self) -> Any:
        pipeline = self._order.model.pipeline
        pipeline.scheduler = self._scheduler
        try:
            return pipeline(
                **self._order.arguments,
                generator=self._generator,
                latents=self._point.latents if self._point else None,
                output_type="np",
                callback_on_step_end=self._after_step,
            )
        # Before its first step a pipeline checks what it was given; later it would be a fault.
        except ValueError as error:
            if self._step > 0:
                raise
            reason = str(error)[:_LONGEST_REASON]
            raise InvalidParametersError(f"The model refuses these parameters: {reason}") from error

    def _after_step(
        self, pipeline: object, index: int, timestep: Any, tensors: dict[str, Any]
    ) -> dict[str, Any]:
        if index == 0:
            self._refuse_another_loop(timestep)
        self._step += 1
        # A run that goes on has them in this order in memory, and so must one that never stopped.
        latents = tensors["latents"].contiguous()
        if not bool(torch.isfinite(latents).all()):
            raise not_a_number()
        total = len(self._journal.timesteps)
        snapshot = functools.partial(self._snapshot, latents, self._step, total)
        exact = self._order.resumes_exactly
        self._tell(StepDone(self._step, total, snapshot if exact else None))
        if self._step == total:
            self._tell(PhaseBegun(Phase.DECODE))
        return {"latents": latents}

    def _refuse_another_loop(self, timestep: Any) -> None:
        """A pipeline that read its timesteps in another way would draw from the wrong ones."""
        timesteps = self._journal.timesteps
        if self._point is None:
            return
        if len(timesteps) != self._point.total_steps or timesteps[self._step] != timestep:
            raise _CannotGoOnError

    def _snapshot(self, latents: Any, step: int, total_steps: int) -> bytes:
        return pack(
            Checkpoint(
                fingerprint=self._order.fingerprint,
                step=step,
                total_steps=total_steps,
                latents=latents,
                generator=self._generator.get_state(),
                scheduler=self._journal.changes(self._scheduler),
            )
        )


def _generator_of(seed: int, point: Checkpoint | None) -> torch.Generator:
    """On the CPU, whatever the model is on, so that a seed means the same noise everywhere."""
    generator = torch.Generator("cpu")
    if point is None:
        generator.manual_seed(seed)
    else:
        generator.set_state(point.generator)
    return generator


def _refuse_other_size(pixels: npt.NDArray[np.uint8], order: Order) -> None:
    height, width = pixels.shape[:2]
    if (width, height) != (order.parameters.width, order.parameters.height):
        raise InvalidParametersError(
            f"The model can't draw that size; it made {width} × {height} of it."
        )
