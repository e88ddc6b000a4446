"""Schedulers of diffusers: which there are by what name, and how one goes on from the middle."""

import copy
import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import diffusers
import numpy as np
import torch

from activities.errors import ErrorKind, InvalidParametersError, WorkError


@dataclass(frozen=True)
class Sampler:
    """A scheduler's class and the settings in which it differs from the model's own."""

    scheduler: str
    settings: Mapping[str, object] = field(default_factory=dict)


# For models that predict noise, x0 or v over the usual 1,000 timesteps. The settings are those by
# which the documentation of diffusers translates the names that other programs use.
SAMPLERS: Mapping[str, Sampler] = {
    "ddim": Sampler("DDIMScheduler"),
    "ddpm": Sampler("DDPMScheduler"),
    "pndm": Sampler("PNDMScheduler", {"skip_prk_steps": True}),
    "lms": Sampler("LMSDiscreteScheduler"),
    "euler": Sampler("EulerDiscreteScheduler"),
    "euler_a": Sampler("EulerAncestralDiscreteScheduler"),
    "heun": Sampler("HeunDiscreteScheduler"),
    "dpm2": Sampler("KDPM2DiscreteScheduler"),
    "dpm2_a": Sampler("KDPM2AncestralDiscreteScheduler"),
    "dpmpp_2s": Sampler("DPMSolverSinglestepScheduler"),
    "dpmpp_2m": Sampler("DPMSolverMultistepScheduler"),
    "dpmpp_2m_karras": Sampler("DPMSolverMultistepScheduler", {"use_karras_sigmas": True}),
    "dpmpp_2m_sde": Sampler("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++"}),
    "dpmpp_3m": Sampler("DPMSolverMultistepScheduler", {"solver_order": 3}),
    "dpmpp_sde": Sampler("DPMSolverSDEScheduler"),
    "deis": Sampler("DEISMultistepScheduler"),
    "unipc": Sampler("UniPCMultistepScheduler"),
    "lcm": Sampler("LCMScheduler"),
    "tcd": Sampler("TCDScheduler"),
    "sa_solver": Sampler("SASolverScheduler"),
}
_DIFFUSION = frozenset(sampler.scheduler for sampler in SAMPLERS.values())

# Each was killed at every step and gave the same bytes. DPMSolverSDEScheduler draws its noise from
# a Brownian tree that can't be written down, and one that isn't listed may do anything.
RESUMES_EXACTLY = _DIFFUSION - {"DPMSolverSDEScheduler"} | {"FlowMatchEulerDiscreteScheduler"}

# The configuration, and no state; in it nothing changes.
_CONFIG = "_internal_dict"
_MISSING = object()


@dataclass(frozen=True)
class SchedulerChoice:
    """A job's scheduler, which never runs itself: each run gets a copy."""

    fresh: Any

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.fresh).__name__

    @property
    def config(self) -> dict[str, object]:
        """Its settings. Names that begin with _ are notes of diffusers' own."""
        return {k: v for k, v in self.fresh.config.items() if not k.startswith("_")}

    @property
    def step_parameters(self) -> frozenset[str]:
        """What its step understands."""
        return frozenset(inspect.signature(self.fresh.step).parameters)

    @property
    def resumes_exactly(self) -> bool:
        """Whether a run can go on from its state. Noise of no generator's can't be repeated."""
        return self.name in RESUMES_EXACTLY and not self.config.get("stochastic_sampling")

    def start(self, journal: "Journal") -> Any:
        """A scheduler before its first step, which the journal follows."""
        scheduler = copy.copy(self.fresh)
        vars(scheduler).update(_state_of(scheduler))
        scheduler.__class__ = _followed(type(self.fresh), journal)
        return scheduler


def choose_scheduler(own: Any, wanted: str | None) -> SchedulerChoice:
    """The model's own scheduler, or the one of this name; raises `WorkError` if it can't be."""
    if wanted is None or wanted == type(own).__name__:
        return SchedulerChoice(own)
    allowed = _names_for(type(own).__name__)
    if wanted not in allowed:
        raise InvalidParametersError(
            f"This model has no scheduler {wanted!r}; there are: {', '.join(allowed)}."
        )
    return _built(wanted, own)


def _names_for(own: str) -> list[str]:
    # A flow model is nothing but noise to the others, and the other way round.
    return [*SAMPLERS, *sorted(_DIFFUSION)] if own in _DIFFUSION else [own]


# Kept, because some of them take half a second to build.
@functools.lru_cache(maxsize=64)
def _built(name: str, own: Any) -> SchedulerChoice:
    sampler = SAMPLERS.get(name, Sampler(name))
    kind = getattr(diffusers, sampler.scheduler)
    try:
        return SchedulerChoice(kind.from_config(own.config, **sampler.settings))
    # What diffusers puts in the place of a class whose own requirements aren't installed.
    except ImportError as error:
        raise WorkError(
            ErrorKind.ENGINE_UNAVAILABLE,
            f"{sampler.scheduler} needs a package that is not installed here.",
        ) from error


class Journal:
    """Follows one scheduler: what its steps have changed, and where it goes on from.

    With a `state`, which is what `changes` told in an earlier run, `done` steps are behind it.
    """

    def __init__(self, state: Mapping[str, object] | None, done: int) -> None:
        self.timesteps: torch.Tensor = torch.empty(0)
        self._state = state
        self._done = done
        self._before: dict[str, object] = {}
        self._cuts_next_reading = False

    @property
    def is_resuming(self) -> bool:
        """Whether an earlier run's state is taken over."""
        return self._state is not None

    def begin(self, scheduler: Any) -> None:
        """The timesteps are set; now the earlier state, if any, takes the place of the first."""
        self.timesteps = vars(scheduler)["timesteps"]
        self._before = _state_of(scheduler)
        if self._state is not None:
            vars(scheduler).update(copy.deepcopy(dict(self._state)))
            self._cuts_next_reading = True

    def read_timesteps(self, scheduler: Any) -> torch.Tensor:
        """All timesteps, except for the one reading that gives the pipeline its loop.

        A pipeline reads them right after it had them set, and loops over what it read. The
        scheduler itself must see all of them: it finds its place, and the last step, by them.
        """
        timesteps = vars(scheduler)["timesteps"]
        if self._cuts_next_reading:
            self._cuts_next_reading = False
            return timesteps[self._done :]
        return timesteps

    def changes(self, scheduler: Any) -> dict[str, object]:
        """The attributes that steps have changed since the timesteps were set."""
        return {
            name: value
            for name, value in vars(scheduler).items()
            if name != _CONFIG and not _is_same(value, self._before.get(name, _MISSING))
        }


def _followed(kind: Any, journal: Journal) -> type:
    """The scheduler's class with a journal. A subclass, so that no signature is hidden: pipelines
    hand over `generator` and `eta` only where they see them in it."""

    @functools.wraps(kind.set_timesteps)
    def set_timesteps(self: Any, *args: Any, **kwargs: Any) -> None:
        kind.set_timesteps(self, *args, **kwargs)
        journal.begin(self)

    def write_timesteps(self: Any, value: object) -> None:
        vars(self)["timesteps"] = value

    members: dict[str, object] = {
        "__module__": kind.__module__,
        "set_timesteps": set_timesteps,
        "timesteps": property(journal.read_timesteps, write_timesteps),
    }
    if journal.is_resuming:
        # Pipelines multiply given latents by it, and these are no longer pure noise.
        members["init_noise_sigma"] = property(lambda self: 1.0, lambda self, value: None)
    return type(kind.__name__, (kind,), members)


def _state_of(scheduler: Any) -> dict[str, object]:
    """All attributes but the configuration; a deep copy, as schedulers write into their lists."""
    return copy.deepcopy({k: v for k, v in vars(scheduler).items() if k != _CONFIG})


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        same_kind = (one.dtype, one.device, one.shape) == (other.dtype, other.device, other.shape)
        return same_kind and bool(torch.equal(one, other))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)
