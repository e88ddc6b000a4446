"""The procedural engine, which notes each step that it computes; `benchmarks.recovery` reads it."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from activities.engines.base import LocalEvent, StepDone
from activities.engines.procedural import ProceduralEngine
from activities.models import GenerationParameters

SPEC = "benchmarks.recovery_engine:NotingEngine"
NOTES = "DARKROOM_BENCHMARK_NOTES"


@dataclass(frozen=True)
class Note:
    """A step was finished: when, in seconds since the epoch, and by which worker's engine."""

    at: float
    worker: int
    seed: int
    step: int


class NotingEngine(ProceduralEngine):
    """Appends a line for each step to the file that the environment names.

    One write for each, so that what was noted outlives the process, and no line is half of one.
    """

    def load(self) -> None:
        """Remember the worker now: once it is killed, this process has another parent."""
        super().load()
        self._worker = os.getppid()

    def run(
        self, parameters: GenerationParameters, checkpoint: bytes | None
    ) -> Iterator[LocalEvent]:
        """The same events; a step is noted before anybody is told of it."""
        with Path(os.environ[NOTES]).open("ab", buffering=0) as notes:
            for event in super().run(parameters, checkpoint):
                if isinstance(event, StepDone):
                    line = f"{time.time()} {self._worker} {parameters.seed} {event.step}\n"
                    notes.write(line.encode())
                yield event


def read_notes(path: Path, seed: int) -> list[Note]:
    """The steps of the job with this seed, in the order in which they were finished."""
    lines = path.read_text().splitlines() if path.exists() else []
    fields = [line.split() for line in lines]
    notes = [Note(float(at), int(worker), int(of), int(step)) for at, worker, of, step in fields]
    return [note for note in notes if note.seed == seed]
