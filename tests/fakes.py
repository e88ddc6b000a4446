"""Fakes: they implement the protocols of the code, and nothing is patched."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from temporalio import activity

from activities.engines.base import Capabilities, EngineEvent, EngineParameters, EngineRun
from activities.finishing import Finisher
from activities.models import AttemptHeartbeat, ClaimInput, WorkInput, WorkResult
from activities.ownership import Grant, JobLostError, TemporalOwnership
from activities.refs import ArtifactRef

# Hands images out without a visible label.
UNLABELLED = Finisher(label=None, provider="Darkroom", with_parameters=False)

FAKE_ARTIFACT = ArtifactRef(
    key="jobs/x/00.png", sha256="00", media_type="image/png", byte_size=1, width=64, height=64
)

Behaviour = Callable[[WorkInput], Awaitable[WorkResult]]


class FakeWork:
    """Stands in for GenerationActivities: claims as the real one does, then behaves as told.

    `inputs` has every attempt that was allowed to start.
    """

    def __init__(self, ownership: TemporalOwnership, behaviour: Behaviour) -> None:
        self.inputs: list[WorkInput] = []
        self._ownership = ownership
        self._behaviour = behaviour

    @activity.defn
    async def generate_image(self, input: WorkInput) -> WorkResult:
        """The work activity, by its real name."""
        await self._ownership.claim(input.dispatch)
        self.inputs.append(input)
        return await self._behaviour(input)


class FakeRemoval:
    """Stands in for WatermarkActivities, as `FakeWork` does for GenerationActivities."""

    def __init__(self, work: FakeWork) -> None:
        self._work = work

    @activity.defn
    async def remove_watermark(self, input: WorkInput) -> WorkResult:
        """The work activity, by its real name."""
        return await self._work.generate_image(input)


class FakeOwnership:
    """Grants the claim, and the job, until told otherwise."""

    def __init__(self) -> None:
        self.claims: list[ClaimInput] = []
        self.granted_at = datetime.now(UTC)
        self.is_lost = False

    async def claim(self, dispatch: int) -> Grant:
        """See `Ownership.claim`."""
        if self.is_lost:
            raise JobLostError("the job is over")
        self.claims.append(ClaimInput(dispatch=dispatch, worker="fake"))
        return Grant(self.granted_at, time.monotonic(), time.monotonic())

    async def confirm(self, heartbeat: AttemptHeartbeat) -> None:
        """See `Ownership.confirm`."""
        if self.is_lost:
            raise JobLostError("the job was given to another attempt")


class FakeRun:
    """One job in a `FakeEngine`: yields the given events, each when it is let go."""

    def __init__(self, events: list[EngineEvent], hold: asyncio.Event | None) -> None:
        self._events = events
        self._hold = hold
        self.stop_requests: list[bool] = []

    async def events(self) -> AsyncGenerator[EngineEvent, None]:
        """See `EngineRun.events`."""
        for event in self._events:
            yield event
        if self._hold is not None:
            await self._hold.wait()

    def request_stop(self, *, checkpoint: bool, grace_seconds: float) -> None:
        """See `EngineRun.request_stop`."""
        self.stop_requests.append(checkpoint)
        if self._hold is not None:
            self._hold.set()


class FakeEngine:
    """An engine that yields what it is told to."""

    name = "fake"

    def __init__(self, events: list[EngineEvent], hold: asyncio.Event | None = None) -> None:
        self.run = FakeRun(events, hold)
        self.checkpoints: list[bytes | None] = []
        self.capabilities: Capabilities | None = Capabilities(progress=True)

    @asynccontextmanager
    async def open(
        self, job_id: str, parameters: EngineParameters, checkpoint: bytes | None, scratch: Path
    ) -> AsyncIterator[EngineRun]:
        """See `ImageEngine.open`."""
        self.checkpoints.append(checkpoint)
        yield self.run
