"""The same jobs on two sides: an engine called directly, and the same one in its slot's process."""

import asyncio
import importlib
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from activities.engines.base import Capabilities, LocalEngine, LocalEvent, StepDone
from activities.engines.diffusers import DiffusersEngine
from activities.engines.guard import stand_back
from activities.engines.procedural import ProceduralEngine
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.models import GenerationParameters
from benchmarks.stack import percentile
from tests.processes import children_of, command_of

_Args = TypeVarTuple("_Args")
_Result = TypeVar("_Result")

_COSTS_FILE = "checkpoint-costs.json"


@dataclass(frozen=True)
class Cost:
    """What one job took, in seconds by the clock and seconds of a processor.

    `checkpoints` were taken in it, which took `checkpoint_seconds` by the engine's own clock.
    """

    seconds: float
    processor: float
    checkpoints: float = 0
    checkpoint_seconds: float = 0


class Measured:
    """An engine which tells how long its checkpoints keep it from its next step."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._taken_at = 0.0

    @property
    def capabilities(self) -> Capabilities:
        return self._engine.capabilities

    def load(self) -> None:
        """Load the engine itself."""
        self._engine.load()

    def run(
        self, parameters: GenerationParameters, checkpoint: bytes | None
    ) -> Iterator[LocalEvent]:
        """The same events; the costs are left in the folder for temporary files."""
        costs: list[float] = []
        for event in self._engine.run(parameters, checkpoint):
            self._taken_at = 0.0
            yield self._timed(event)
            if self._taken_at:
                costs.append(time.perf_counter() - self._taken_at)
        Path(tempfile.gettempdir(), _COSTS_FILE).write_text(json.dumps(costs))

    def _timed(self, event: LocalEvent) -> LocalEvent:
        if not isinstance(event, StepDone) or event.snapshot is None:
            return event
        snapshot = event.snapshot

        def timed_snapshot() -> bytes:
            self._taken_at = time.perf_counter()
            return snapshot()

        return replace(event, snapshot=timed_snapshot)


class WithoutCheckpoints(Measured):
    """An engine whose steps can't be gone on from."""

    def _timed(self, event: LocalEvent) -> LocalEvent:
        return replace(event, snapshot=None) if isinstance(event, StepDone) else event


class Procedural(Measured):
    """Measured, and with checkpoints."""

    def __init__(self) -> None:
        super().__init__(ProceduralEngine())


class ProceduralWithout(WithoutCheckpoints):
    """Measured, and without checkpoints."""

    def __init__(self) -> None:
        super().__init__(ProceduralEngine())


class Diffusers(Measured):
    """Measured, and with checkpoints."""

    def __init__(self) -> None:
        super().__init__(DiffusersEngine())


class DiffusersWithout(WithoutCheckpoints):
    """Measured, and without checkpoints."""

    def __init__(self) -> None:
        super().__init__(DiffusersEngine())


@dataclass(frozen=True)
class Specs:
    """The three sides of one engine, each as `module:Class`."""

    name: str
    direct: str
    without: str
    kept: str


PROCEDURAL = Specs(
    "procedural",
    "activities.engines.procedural:ProceduralEngine",
    f"{__name__}:ProceduralWithout",
    f"{__name__}:Procedural",
)
DIFFUSERS = Specs(
    "diffusers",
    "activities.engines.diffusers:DiffusersEngine",
    f"{__name__}:DiffusersWithout",
    f"{__name__}:Diffusers",
)


@cache
def _loaded(spec: str) -> LocalEngine:
    module, _, name = spec.partition(":")
    engine: LocalEngine = getattr(importlib.import_module(module), name)()
    engine.load()
    return engine


def run_directly(spec: str, parameters: GenerationParameters, jobs: int) -> Cost:
    """Call the engine in this process, which loads it once."""
    engine = _loaded(spec)
    began, worked = time.perf_counter(), time.process_time()
    for _ in range(jobs):
        for _ in engine.run(parameters, None):
            pass
    return Cost((time.perf_counter() - began) / jobs, (time.process_time() - worked) / jobs)


def snapshot_cost(spec: str, parameters: GenerationParameters) -> tuple[float, int]:
    """Median seconds of `snapshot()`, and the bytes of the last one: the largest, if they grow."""
    seconds, data = [], b""
    for event in _loaded(spec).run(parameters, None):
        if isinstance(event, StepDone) and event.snapshot is not None:
            began = time.perf_counter()
            data = event.snapshot()
            seconds.append(time.perf_counter() - began)
    return percentile(seconds, 0.5), len(data)


class Direct:
    """A process of its own for direct calls, which stands back as the engine's process does."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_stand_apart)

    async def call(self, function: Callable[[*_Args], _Result], *args: *_Args) -> _Result:
        """Call it there."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)

    def stop(self) -> None:
        """End the process."""
        self._pool.shutdown()


def _stand_apart() -> None:
    # The kernel shares out processors by session first and by niceness within one.
    os.setsid()
    stand_back()


@dataclass(frozen=True)
class InChild:
    """An engine in the child process of a slot, and that process."""

    engine: ChildProcessEngine
    pid: int
    folder: Path

    async def run(self, parameters: GenerationParameters, jobs: int) -> Cost:
        """Run jobs one after another. Processor time is the child's and this process's."""
        began, worked = time.perf_counter(), self._processor()
        costs = [cost for _ in range(jobs) for cost in await self._run_one(parameters)]
        return Cost(
            (time.perf_counter() - began) / jobs,
            (self._processor() - worked) / jobs,
            len(costs) / jobs,
            sum(costs) / jobs,
        )

    async def _run_one(self, parameters: GenerationParameters) -> list[float]:
        async with (
            self.engine.open("benchmark", parameters, None, self.folder) as run,
            aclosing(run.events()) as events,
        ):
            async for _ in events:
                pass
        costs: list[float] = json.loads((self.folder / _COSTS_FILE).read_text())
        return costs

    def _processor(self) -> float:
        # The clock of another process, numbered as clock_getcpuclockid(3) does on Linux.
        return time.process_time() + time.clock_gettime(~self.pid << 3 | 2)


@asynccontextmanager
async def in_child(spec: str, folder: Path) -> AsyncIterator[InChild]:
    """The engine loaded in a slot; nothing of it is left afterwards."""
    before = children_of(os.getpid())
    engine = ChildProcessEngine("benchmark", spec, 1, StallLimits(), 10)
    try:
        await engine.start()
        new = set(children_of(os.getpid())) - set(before)
        (pid,) = [pid for pid in new if "activities.engines.child" in command_of(pid)]
        yield InChild(engine, pid, folder)
    finally:
        await engine.stop()
