"""generate_image: from parameters to an image in the store."""

import asyncio
from contextlib import aclosing

from temporalio import activity

from activities.artifacts import (
    ArtifactLostError,
    ArtifactStore,
    put_checkpoint,
    put_image,
    store_limit,
)
from activities.attempt import Attempt, StopGraces, StopRequest
from activities.engines.base import (
    CheckpointTaken,
    EngineEvent,
    EngineRun,
    ImageDone,
    ImageEngine,
    PhaseBegun,
    StartedOver,
    StepDone,
)
from activities.errors import ErrorKind, WorkError
from activities.imaging.inspection import ImageFacts, NotAnImageError, inspect_image
from activities.models import ArtifactRef, CheckpointRef, Phase, WorkInput, WorkResult
from activities.ownership import Ownership
from activities.scratch import Scratch


class GenerationActivities:
    """Generates with one engine, into one store."""

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

    @activity.defn
    async def generate_image(self, input: WorkInput) -> WorkResult:
        """One attempt: an image, or a stop at a checkpoint, or an ApplicationError of its kind.

        A repeated attempt stores the same bytes under the same key.
        """
        attempt = Attempt(input, self._ownership, self._worker, self._graces)
        try:
            return await attempt.run(self._generate)
        finally:
            if activity.is_worker_shutdown():
                self.last_served.append(activity.info().workflow_id or "")

    async def _generate(self, attempt: Attempt) -> WorkResult:
        work = attempt.input
        checkpoint = await self._read_checkpoint(attempt)
        with self._scratch.folder(work.job_id) as scratch:
            async with self._engine.open(work.job_id, work.parameters, checkpoint, scratch) as run:
                attempt.on_stop(lambda stop: _pass_on(stop, run))
                artifact = await self._follow(attempt, run)
        if artifact is not None:
            return attempt.result(artifact=artifact, checkpoint=None)
        if attempt.stop is not None:
            return attempt.result(stopped=attempt.stop.reason)
        raise WorkError(ErrorKind.ENGINE_CRASHED, "the engine ended without an image")

    async def _follow(self, attempt: Attempt, run: EngineRun) -> ArtifactRef | None:
        """Take the engine's events as they come; the image, if it came to one.

        Nothing that the engine does after it can take a stored image back.
        """
        async with aclosing(run.events()) as events:
            async for event in events:
                artifact = await self._take(attempt, event)
                if artifact is not None:
                    return artifact
        return None

    async def _take(self, attempt: Attempt, event: EngineEvent) -> ArtifactRef | None:
        match event:
            case StepDone():
                attempt.step_done(event.step, event.total_steps)
            case PhaseBegun(phase):
                attempt.phase_begun(phase)
            case CheckpointTaken(data, step):
                attempt.checkpoint = await self._keep_checkpoint(attempt, data, step)
            case StartedOver(reason):
                attempt.start_over(reason)
            case ImageDone(data):
                attempt.phase_begun(Phase.STORE)
                return await self._store_image(attempt, data)
        return None

    async def _read_checkpoint(self, attempt: Attempt) -> bytes | None:
        if attempt.checkpoint is None:
            return None
        try:
            async with store_limit(self._store_seconds):
                return await self._store.get(attempt.checkpoint.key)
        except ArtifactLostError:
            attempt.start_over("the checkpoint was lost")
            return None

    async def _keep_checkpoint(self, attempt: Attempt, data: bytes, step: int) -> CheckpointRef:
        await attempt.confirm_ownership()
        work = attempt.input
        async with store_limit(self._store_seconds):
            return await put_checkpoint(self._store, work.job_id, work.dispatch, step, data)

    async def _store_image(self, attempt: Attempt, data: bytes) -> ArtifactRef:
        facts = await self._inspect(data)
        await attempt.confirm_ownership()
        async with store_limit(self._store_seconds):
            size = (facts.width, facts.height)
            return await put_image(self._store, attempt.input.job_id, data, facts.media_type, size)

    async def _inspect(self, data: bytes) -> ImageFacts:
        try:
            async with asyncio.timeout(self._inspect_seconds):
                return await asyncio.to_thread(inspect_image, data)
        except NotAnImageError as error:
            message = f"the engine's output is not an image: {error}"
            raise WorkError(ErrorKind.ENGINE_CRASHED, message) from error
        except TimeoutError as error:
            message = f"the engine's image could not be decoded in {self._inspect_seconds:g} s"
            raise WorkError(ErrorKind.ENGINE_CRASHED, message) from error


def _pass_on(stop: StopRequest, run: EngineRun) -> None:
    run.request_stop(checkpoint=stop.checkpoint, grace_seconds=stop.grace.total_seconds())
