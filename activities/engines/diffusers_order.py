"""What one job asks of the pipeline, checked, and which checkpoints fit it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from activities.engines.diffusers_checkpoint import Checkpoint, unpack
from activities.engines.diffusers_model import Model
from activities.engines.diffusers_schedulers import SchedulerChoice, choose_scheduler
from activities.errors import InvalidParametersError
from activities.models import GenerationParameters

# Raised with every change of what a checkpoint holds, or of what the same parameters draw.
_ENGINE_VERSION = "1"
_OPTIONS = ("eta", "scheduler")

_DAMAGED = "The checkpoint is damaged, so the picture was begun again."
# A fingerprint's parts that say nothing to a person.
_OPAQUE = frozenset(("model", "parameters", "scheduler"))


@dataclass(frozen=True)
class Order:
    """One job: `arguments` for the pipeline's call, and a scheduler for it."""

    model: Model
    parameters: GenerationParameters
    scheduler: SchedulerChoice
    arguments: Mapping[str, object]

    @property
    def resumes_exactly(self) -> bool:
        """Whether a checkpoint would lead to the same bytes; otherwise none is offered."""
        return self.model.resumes_exactly and self.scheduler.resumes_exactly

    @property
    def fingerprint(self) -> dict[str, str]:
        """What must be equal for a run to go on: the build, and all that the job asks for."""
        return {
            **self.model.build,
            "version of this engine": _ENGINE_VERSION,
            "scheduler": f"{self.scheduler.name} {_hash_of(self.scheduler.config)}",
            "parameters": _hash_of(self.parameters.model_dump()),
        }

    def read(self, checkpoint: bytes) -> Checkpoint | str:
        """The checkpoint, or why it can't be used, in words for a user."""
        point = unpack(checkpoint, self.model.device)
        if point is None:
            return _DAMAGED
        differences = [
            _difference(name, point.fingerprint.get(name, "none"), here)
            for name, here in self.fingerprint.items()
            if point.fingerprint.get(name) != here
        ]
        if differences:
            listed = ", ".join(differences)
            return f"The checkpoint was made with another {listed}, so the picture was begun again."
        return point


def order_for(model: Model, parameters: GenerationParameters) -> Order:
    """Check the job against the model; raises `WorkError` for what it can't do."""
    options = _options_of(parameters.engine_options)
    model.refuse_size(parameters.width, parameters.height)
    choice = choose_scheduler(model.scheduler, options.get("scheduler"))
    arguments = _arguments_of(parameters, model.call_parameters)
    if "eta" in options:
        arguments["eta"] = _eta(options["eta"], choice, model.call_parameters)
    return Order(model, parameters, choice, arguments)


def _options_of(options: Mapping[str, Any]) -> dict[str, Any]:
    for name in sorted(set(options) - set(_OPTIONS)):
        raise InvalidParametersError(
            f"Unknown engine option {name!r}; there are: {', '.join(_OPTIONS)}."
        )
    if not isinstance(options.get("scheduler", ""), str):
        raise InvalidParametersError("The engine option 'scheduler' must be a name.")
    return dict(options)


def _arguments_of(
    parameters: GenerationParameters, understood: frozenset[str]
) -> dict[str, object]:
    arguments: dict[str, object] = {
        "prompt": parameters.prompt,
        "width": parameters.width,
        "height": parameters.height,
        "num_inference_steps": parameters.num_inference_steps,
    }
    if "guidance_scale" in understood:
        arguments["guidance_scale"] = parameters.guidance_scale
    if "negative_prompt" in understood:
        arguments["negative_prompt"] = parameters.negative_prompt
    elif parameters.negative_prompt:
        raise InvalidParametersError("This model takes no negative prompt.")
    return arguments


def _eta(value: object, choice: SchedulerChoice, understood: frozenset[str]) -> float:
    if "eta" not in understood or "eta" not in choice.step_parameters:
        raise InvalidParametersError(f"The engine option 'eta' means nothing to {choice.name}.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidParametersError("The engine option 'eta' must be a number from 0 to 1.")
    return float(value)


def _hash_of(values: object) -> str:
    # Escaped to ASCII, because a prompt may hold what UTF-8 can't. Configurations hold arrays.
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _difference(name: str, there: str, here: str) -> str:
    return name if name in _OPAQUE else f"{name} ({there}, here {here})"
