"""Engines that let a test see each step, or decide when it is done."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from activities.engines.base import LocalEvent, StepDone
from activities.engines.procedural import ProceduralEngine
from activities.models import GenerationParameters
from tests.faulty_engine import FaultyEngine

STEP_LOG = "DARKROOM_TEST_STEPS"
# So that a picture takes seconds on a fast machine as well.
STEP_SECONDS = 0.05


@dataclass(frozen=True)
class ComputedStep:
    """One step that an engine has computed: by which process, for the job with which seed."""

    pid: int
    seed: int
    step: int


class ToldEngine(ProceduralEngine):
    """Draws as always, and tells of each step in the file that the environment names."""

    def run(
        self, parameters: GenerationParameters, checkpoint: bytes | None
    ) -> Iterator[LocalEvent]:
        """See the engine; a step is told as soon as it is computed."""
        with Path(os.environ[STEP_LOG]).open("a", encoding="ascii") as log:
            for event in super().run(parameters, checkpoint):
                if isinstance(event, StepDone):
                    log.write(f"{os.getpid()} {parameters.seed} {event.step}\n")
                    log.flush()
                    time.sleep(STEP_SECONDS)
                yield event


def computed_steps(log: Path) -> list[ComputedStep]:
    """All steps so far, in the order in which they were computed."""
    lines = log.read_text(encoding="ascii").splitlines()
    return [ComputedStep(*map(int, line.split())) for line in lines]


class GatedEngine(FaultyEngine):
    """Does steps 1 to `gate_after`, and goes on once there is a file named `gate`.

    That it has gone on shows in one more file, `<gate>.passed`.
    """

    def run(
        self, parameters: GenerationParameters, checkpoint: bytes | None
    ) -> Iterator[LocalEvent]:
        """See the engine; without a gate it is that one."""
        options = parameters.engine_options
        for event in super().run(parameters, checkpoint):
            yield event
            if isinstance(event, StepDone) and event.step == options.get("gate_after"):
                _pass(options["gate"])


def _pass(gate: str) -> None:
    while not Path(gate).exists():
        time.sleep(0.01)
    Path(f"{gate}.passed").touch()
