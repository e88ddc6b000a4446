"""One attempt of generate_image with fakes around it, for the tests of attempts."""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from PIL import Image
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.artifacts import LocalArtifactStore
from activities.engine_work import EngineWork
from activities.engines.base import (
    EngineEvent,
    EngineParameters,
    EngineRun,
    ImageDone,
    StepDone,
)
from activities.errors import ErrorKind, WorkError
from activities.finishing import Finisher
from activities.generation import GenerationActivities
from activities.models import (
    AttemptHeartbeat,
    FailureReport,
    GenerationParameters,
    WorkInput,
    WorkResult,
)
from activities.ownership import Grant
from activities.refs import CheckpointRef
from activities.scratch import Scratch
from activities.stops import StopGraces
from tests.fakes import UNLABELLED, FakeEngine, FakeOwnership, FakeRun

GRACES = StopGraces(
    cancel=timedelta(seconds=3), pause=timedelta(seconds=30), worker_stopping=timedelta(seconds=15)
)


def png(side: int = 64) -> bytes:
    """A square image."""
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), "teal").save(buffer, "PNG")
    return buffer.getvalue()


IMAGE = ImageDone(png(), "image/png")
STEPS: list[EngineEvent] = [StepDone(step, 4) for step in range(1, 5)]


class FaultyStore(LocalArtifactStore):
    """A store whose `put` or `get` hangs or fails."""

    def __init__(self, root: Path, put: str = "", get: str = "") -> None:
        super().__init__(root)
        self._faults = {"put": put, "get": get}

    async def put(self, key: str, data: bytes) -> None:
        await self._fail("put")
        await super().put(key, data)

    async def get(self, key: str) -> bytes:
        await self._fail("get")
        return await super().get(key)

    async def _fail(self, call: str) -> None:
        if self._faults[call] == "hangs":
            await asyncio.Event().wait()
        elif self._faults[call] == "fails":
            raise WorkError(ErrorKind.STORAGE, "the artifact store is full")


class PendingOwnership(FakeOwnership):
    """Nobody answers the claim."""

    async def claim(self, dispatch: int) -> Grant:
        await asyncio.Event().wait()
        return await super().claim(dispatch)


class RaisingEngine(FakeEngine):
    """Fails while a job is opened."""

    def __init__(self, error: Exception) -> None:
        super().__init__([])
        self._error = error

    @asynccontextmanager
    async def open(
        self, job_id: str, parameters: EngineParameters, checkpoint: bytes | None, scratch: Path
    ) -> AsyncIterator[EngineRun]:
        raise self._error
        yield self.run


class LoadingEngine(FakeEngine):
    """Never gets done with loading its model."""

    @asynccontextmanager
    async def open(
        self, job_id: str, parameters: EngineParameters, checkpoint: bytes | None, scratch: Path
    ) -> AsyncIterator[EngineRun]:
        self.checkpoints.append(checkpoint)
        await asyncio.Event().wait()
        yield self.run


@dataclass
class Bench:
    """One attempt with all that it needs, and what it told."""

    root: Path
    engine: FakeEngine
    ownership: FakeOwnership = field(default_factory=FakeOwnership)
    put: str = ""
    get: str = ""
    store_seconds: float = 0.2
    inspect_seconds: float = 60
    finisher: Finisher = UNLABELLED
    environment: ActivityEnvironment = field(default_factory=ActivityEnvironment)
    heartbeats: list[AttemptHeartbeat] = field(default_factory=list)
    message: str = ""

    def __post_init__(self) -> None:
        self.environment.on_heartbeat = self.heartbeats.append
        self.scratch = Scratch(self.root / "tmp")
        self.store = FaultyStore(self.root / "artifacts", self.put, self.get)
        self.work = EngineWork(
            self.engine,
            self.store,
            self.scratch,
            self.ownership,
            "me",
            GRACES,
            self.store_seconds,
            self.inspect_seconds,
        )
        self.activities = GenerationActivities(self.work, self.finisher)

    def start(self, checkpoint: CheckpointRef | None = None) -> "asyncio.Task[WorkResult]":
        """Begin the attempt."""
        work = WorkInput(
            job_id="7",
            tenant="default",
            dispatch=3,
            parameters=GenerationParameters(prompt="a lake", num_inference_steps=4),
            checkpoint=checkpoint,
        )
        return asyncio.create_task(self.environment.run(self.activities.generate_image, work))

    async def fails(self, checkpoint: CheckpointRef | None = None) -> FailureReport:
        """Run to a failure that the workflow can read, and return what it says."""
        with pytest.raises(ApplicationError) as failure:
            await self.start(checkpoint)
        assert failure.value.non_retryable
        # Temporal would keep the words and paths of a cause in history.
        assert failure.value.__cause__ is None
        [report] = failure.value.details
        assert isinstance(report, FailureReport)
        assert failure.value.type == report.kind
        self.message = failure.value.message
        return report

    @property
    def stored(self) -> list[str]:
        """The keys of all that is in the store."""
        root = self.root / "artifacts"
        return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())

    @property
    def leftovers(self) -> list[Path]:
        """Temporary files."""
        return list((self.root / "tmp").glob("worker-*/*"))


def held(*events: EngineEvent) -> FakeEngine:
    """An engine that goes on after these events until it is asked to stop."""
    return FakeEngine(list(events), asyncio.Event())


class GatedRun(FakeRun):
    """Yields the first event, and the others once the gate is open, whatever is asked for."""

    def __init__(self, events: list[EngineEvent], gate: asyncio.Event) -> None:
        super().__init__(events, None)
        self._gate = gate

    async def events(self) -> AsyncGenerator[EngineEvent, None]:
        """See `EngineRun.events`."""
        for number, event in enumerate(self._events):
            if number:
                await self._gate.wait()
            yield event


class FailingRun(FakeRun):
    """Yields its events, and then fails."""

    async def events(self) -> AsyncGenerator[EngineEvent, None]:
        """See `EngineRun.events`."""
        async for event in super().events():
            yield event
        raise WorkError(ErrorKind.ENGINE_CRASHED, "the engine failed: RuntimeError")


def failing_after(*events: EngineEvent) -> FakeEngine:
    """An engine with a `FailingRun`."""
    engine = FakeEngine([])
    engine.run = FailingRun(list(events), None)
    return engine


def gated(gate: asyncio.Event, *events: EngineEvent) -> FakeEngine:
    """An engine with a `GatedRun`."""
    engine = FakeEngine([])
    engine.run = GatedRun(list(events), gate)
    return engine
