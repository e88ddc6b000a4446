"""What the work activities share: an engine that makes an image, and a store that keeps it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from temporalio import activity

from activities.artifacts import (
    ArtifactLostError,
    ArtifactStore,
    put_checkpoint,
    put_image,
    store_limit,
)
from activities.attempt import Attempt
from activities.engines.base import (
    CheckpointTaken,
    EngineEvent,
    EngineParameters,
    EngineRun,
    ImageDone,
    ImageEngine,
    LabelRemoved,
    PhaseBegun,
    StartedOver,
    StepDone,
)
from activities.errors import ErrorKind, WorkError
from activities.imaging.inspection import ImageFacts, NotAnImageError, inspect_image
from activities.models import Phase, RemovedLabel, WorkInput, WorkResult
from activities.ownership import Ownership
from activities.refs import ArtifactRef, CheckpointRef
from activities.scratch import Scratch
from activities.stops import StopGraces, StopRequest

Result = TypeVar("Result")


@dataclass(frozen=True)
class MadeImage:
    """What an engine made: the encoded image, and how a label was removed from it, if one was."""

    data: bytes
    removed: RemovedLabel | None


class EngineWork:
    """Attempts at jobs with one engine, into one store."""

    def __init__(
        self,
        engine: ImageEngine,
        store: ArtifactStore,
        scratch: Scratch,
        ownership: Ownership,
        worker: str,
        graces: StopGraces,
        store_seconds: float = 60,
        inspect_seconds: float = 60,
    ) -> None:
        self._engine = engine
        self._store = store
        self._scratch = scratch
        self._ownership = ownership
        self._worker = worker
        self._graces = graces
        self._store_seconds = store_seconds
        # The largest image that is taken needs a few of them.
        self._inspect_seconds = inspect_seconds
        # The workflows whose attempts ended while this worker was stopping.
        self.last_served: list[str] = []
        self._at_work = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def attempt(
        self, input: WorkInput, work: Callable[[Attempt], Awaitable[WorkResult]]
    ) -> WorkResult:
        """Claim the job and do the work, whose end is told as the workflow understands it."""
        attempt = Attempt(input, self._ownership, self._worker, self._graces)
        self._at_work += 1
        self._is_idle.clear()
        try:
            return await attempt.run(work)
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._is_idle.set()
            if activity.is_worker_shutdown():
                self.last_served.append(activity.info().workflow_id or "")

    async def until_idle(self) -> None:
        """Return once no attempt is at work here."""
        await self._is_idle.wait()

    def scratch(self, attempt: Attempt) -> AbstractAsyncContextManager[Path]:
        """The attempt's folder for temporary files, which goes when the context ends."""
        return self._scratch.folder(attempt.input.job_id)

    async def write_scratch(self, path: Path, data: bytes) -> None:
        """Write a file into the attempt's folder; raises `WorkError` of kind STORAGE."""
        await self._scratch.write(path, data)

    async def make(
        self,
        attempt: Attempt,
        scratch: Path,
        parameters: EngineParameters,
        checkpoint: bytes | None = None,
    ) -> MadeImage | None:
        """The engine's image, or None where the attempt was stopped before there was one."""
        job_id = attempt.input.job_id
        async with self._engine.open(job_id, parameters, checkpoint, scratch) as run:
            attempt.on_stop(lambda stop: _pass_on(stop, run))
            made = await self._follow(attempt, run)
        if made is None and attempt.stop is None:
            raise WorkError(ErrorKind.ENGINE_CRASHED, "the engine ended without an image")
        return made

    async def _follow(self, attempt: Attempt, run: EngineRun) -> MadeImage | None:
        """Take the engine's events as they come; nothing that follows the image can undo it."""
        removed: RemovedLabel | None = None
        async with aclosing(run.events()) as events:
            async for event in events:
                match event:
                    case ImageDone(data):
                        attempt.advance.turn_to(Phase.STORE)
                        return MadeImage(data, removed)
                    case LabelRemoved(told):
                        removed = told
                    case _:
                        await self._take(attempt, event)
        return None

    async def _take(self, attempt: Attempt, event: EngineEvent) -> None:
        match event:
            case StepDone():
                attempt.advance.step_done(event.step, event.total_steps)
            case PhaseBegun(phase):
                attempt.advance.turn_to(phase)
            case CheckpointTaken(data, step):
                attempt.checkpoint = await self._keep_checkpoint(attempt, data, step)
            case StartedOver(reason):
                attempt.start_over(reason)

    @property
    def engine_name(self) -> str:
        """What the engine is called in settings and requests."""
        return self._engine.name

    async def read(self, get: Callable[[ArtifactStore], Awaitable[Result]]) -> Result:
        """Read from the store; what is not there is `ArtifactLostError`."""
        async with store_limit(self._store_seconds):
            return await get(self._store)

    async def read_checkpoint(self, attempt: Attempt) -> bytes | None:
        """What the attempt goes on from; it starts over if that was lost."""
        if attempt.checkpoint is None:
            return None
        try:
            key = attempt.checkpoint.key
            return await self.read(lambda store: store.get(key))
        except ArtifactLostError:
            attempt.start_over("the checkpoint was lost")
            return None

    async def _keep_checkpoint(self, attempt: Attempt, data: bytes, step: int) -> CheckpointRef:
        work = attempt.input
        return await self.keep(
            attempt,
            lambda store: put_checkpoint(store, work.job_id, work.dispatch, step, data),
        )

    async def keep_image(self, attempt: Attempt, data: bytes, facts: ImageFacts) -> ArtifactRef:
        """Store the finished image."""
        job_id, size = attempt.input.job_id, (facts.width, facts.height)
        return await self.keep(
            attempt, lambda store: put_image(store, job_id, data, facts.media_type, size)
        )

    async def keep(
        self, attempt: Attempt, put: Callable[[ArtifactStore], Awaitable[Result]]
    ) -> Result:
        """Write to the store, if the job is still this attempt's."""
        await attempt.confirm_ownership()
        async with store_limit(self._store_seconds):
            return await put(self._store)

    async def in_thread(self, compute: Callable[[], Result], what: str) -> Result:
        """Compute beside the heartbeats. `what` completes "… in 60 s" where it takes too long."""
        try:
            async with asyncio.timeout(self._inspect_seconds):
                return await asyncio.to_thread(compute)
        except TimeoutError as error:
            message = f"{what} in {self._inspect_seconds:g} s"
            raise WorkError(ErrorKind.ENGINE_CRASHED, message) from error
        except MemoryError as error:
            raise WorkError(ErrorKind.OUT_OF_MEMORY, f"{what}: out of memory") from error

    async def inspect(self, data: bytes) -> ImageFacts:
        """What the bytes are; they are no image only because an engine says so."""
        try:
            return await self.in_thread(
                lambda: inspect_image(data), "the engine's image could not be decoded"
            )
        except NotAnImageError as error:
            message = f"the engine's output is not an image: {error}"
            raise WorkError(ErrorKind.ENGINE_CRASHED, message) from error


def _pass_on(stop: StopRequest, run: EngineRun) -> None:
    run.request_stop(checkpoint=stop.checkpoint, grace_seconds=stop.grace.total_seconds())
