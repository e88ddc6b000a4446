"""What an engine is: parameters in, a stream of events out.

A *local* engine computes in a child process and is plain synchronous code (`LocalEngine`).
The activity sees every engine, local or remote, as an `ImageEngine`.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from activities.models import GenerationParameters, Phase, RemovalParameters, RemovedLabel

EngineParameters: TypeAlias = GenerationParameters | RemovalParameters


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do; a job is told openly about what it can't."""

    seed: bool = False
    progress: bool = False
    checkpoint: bool = False
    targeted_cancel: bool = False
    reconcile: bool = False


@dataclass(frozen=True)
class StepDone:
    """A step is finished. `snapshot` returns a checkpoint from which the next step can go on."""

    step: int
    total_steps: int
    snapshot: Callable[[], bytes] | None = None


@dataclass(frozen=True)
class PhaseBegun:
    """The engine turned to something that is not a step, such as decoding."""

    phase: Phase


@dataclass(frozen=True)
class CheckpointTaken:
    """Opaque bytes from which a run with the same parameters goes on after `step`."""

    data: bytes
    step: int


@dataclass(frozen=True)
class StartedOver:
    """A checkpoint was offered and could not be used; `reason` says why, for a user."""

    reason: str


@dataclass(frozen=True)
class ImageDone:
    """The finished image, encoded."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class LabelRemoved:
    """How a visible label was removed; told before the image that it was removed from."""

    removed: RemovedLabel


LocalEvent = StepDone | PhaseBegun | StartedOver | LabelRemoved | ImageDone
EngineEvent = LocalEvent | CheckpointTaken


class LocalEngine(Protocol):
    """An engine that computes in the child process which loaded it.

    One instance lives as long as its process and serves one job after another. It may raise
    `WorkError` to say what is wrong; any other exception, exit or crash is told as a crash.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def load(self) -> None:
        """Load what every job needs, once per process."""

    # Any: each engine takes the parameters of its own kind of work.
    def run(self, parameters: Any, checkpoint: bytes | None) -> Iterator[LocalEvent]:
        """Yield a `StepDone` for each step, and at last one `ImageDone`.

        With a checkpoint the first `StepDone` is the step after it; where the checkpoint doesn't
        fit these parameters and this build, yield `StartedOver` and begin at the first step.
        """
        ...


def capabilities_of(engine: LocalEngine) -> Capabilities | None:
    """What the engine says it can do, if it says so as it should."""
    try:
        said = asdict(engine.capabilities)
        return Capabilities(**{name: bool(value) for name, value in said.items()})
    # Anybody writes engines, and one that doesn't tell can serve all the same.
    except Exception:  # noqa: BLE001
        return None


class EngineRun(Protocol):
    """One job inside an engine."""

    def events(self) -> AsyncGenerator[EngineEvent, None]:
        """Yield events until the image, or until a requested stop was carried out.

        Raises `WorkError`. Between two events no longer than the stall limit of the phase passes.
        """
        ...

    def request_stop(self, *, checkpoint: bool, grace_seconds: float) -> None:
        """Ask for an end at the next step, with a last `CheckpointTaken` if wanted and possible.

        An engine that takes longer than the grace is ended by force.
        """


class ImageEngine(Protocol):
    """An engine as the activity sees it."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities | None:
        """What it can do; None as long as nobody can tell, as before it was ever loaded."""

    def open(
        self, job_id: str, parameters: EngineParameters, checkpoint: bytes | None, scratch: Path
    ) -> AbstractAsyncContextManager[EngineRun]:
        """Begin a job; leaving the context frees the engine, by force if it must.

        `scratch` is an empty folder for temporary files, removed by the caller afterwards.
        """
        ...
