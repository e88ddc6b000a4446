"""A local engine as the activity sees it: child processes, one per slot, that may die at will."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from activities.engines import wire
from activities.engines.base import (
    Capabilities,
    CheckpointTaken,
    EngineEvent,
    EngineParameters,
    EngineRun,
    ImageDone,
    LabelRemoved,
    PhaseBegun,
    StartedOver,
    StepDone,
)
from activities.engines.slot import Child, Slot, StallLimits
from activities.errors import WorkError
from activities.models import Phase

logger = logging.getLogger("darkroom.engine")


class ChildRun:
    """One job in a child."""

    def __init__(self, child: Child, limits: StallLimits) -> None:
        self._child = child
        self._limits = limits
        self._phase = Phase.STEP
        self._end_by_force: asyncio.TimerHandle | None = None
        self._ended = False

    def request_stop(self, *, checkpoint: bool, grace_seconds: float) -> None:
        """See `EngineRun.request_stop`. Asked again, the shorter grace counts."""
        if self._ended:
            return
        self._child.tell(wire.StopCommand(checkpoint=checkpoint))
        loop = asyncio.get_running_loop()
        at = loop.time() + grace_seconds
        if self._end_by_force is not None:
            at = min(at, self._end_by_force.when())
            self._end_by_force.cancel()
        self._end_by_force = loop.call_at(at, self._kill)

    def _kill(self) -> None:
        logger.warning("the engine did not stop within its grace; killing it")
        self._child.kill()

    async def events(self) -> AsyncGenerator[EngineEvent, None]:
        """See `EngineRun.events`."""
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield event
        except WorkError:
            self._ended = True
            if self._end_by_force is None:
                raise
            # Killed, or dead while it was to stop: what it had checkpointed is what there is.
            logger.info("the engine ended while it was to stop")

    async def _events(self) -> AsyncGenerator[EngineEvent, None]:
        while True:
            limit = self._limits.of(self._phase)
            report, payload = await self._child.receive(limit, self._phase)
            match report:
                case wire.EndReport():
                    self._ended = True
                    return
                case wire.FailureEvent():
                    raise self._failure(report)
                case wire.StepReport():
                    self._phase = Phase.STEP
                    yield StepDone(report.step, report.total_steps)
                case wire.PhaseReport():
                    self._phase = report.phase
                    yield PhaseBegun(report.phase)
                case wire.CheckpointReport():
                    yield CheckpointTaken(payload, report.step)
                case wire.StartedOverReport():
                    yield StartedOver(report.reason)
                case wire.LabelRemovedReport():
                    yield LabelRemoved(report.removed)
                case wire.ImageReport():
                    yield ImageDone(payload, report.media_type)

    def _failure(self, report: wire.FailureEvent) -> WorkError:
        if report.fatal:
            self._child.kill()
        return WorkError(
            report.error, report.message, retry_after_seconds=report.retry_after_seconds
        )

    async def close(self, grace_seconds: float) -> None:
        """Free the child: by asking, then by force.

        A child that was not heard to the end of its job is never used again: what it still says
        would be taken for the next job's.
        """
        try:
            if not self._ended:
                self.request_stop(checkpoint=False, grace_seconds=grace_seconds)
                async for _ in self.events():
                    pass
        finally:
            if self._end_by_force is not None:
                self._end_by_force.cancel()
            if not self._ended:
                self._child.kill()
        if not self._child.is_usable:
            # It could still write into the job's scratch folder, which is removed next.
            await self._child.gone()


class ChildProcessEngine:
    """`slots` child processes of one local engine, each with a job at a time.

    `engine` names a class, `module:Class`, that the child imports: the worker itself never loads
    a model, and survives whatever the engine does.
    """

    def __init__(
        self, name: str, engine: str, slots: int, limits: StallLimits, cancel_grace_seconds: float
    ) -> None:
        self._name = name
        self._limits = limits
        self._cancel_grace_seconds = cancel_grace_seconds
        self._stopped = False
        self._slots = [Slot(engine, limits) for _ in range(slots)]
        self._idle: asyncio.Queue[Slot] = asyncio.Queue()
        self._warming: set[asyncio.Task[None]] = set()
        for slot in self._slots:
            self._idle.put_nowait(slot)

    @property
    def name(self) -> str:
        """See `ImageEngine.name`."""
        return self._name

    @property
    def capabilities(self) -> Capabilities | None:
        """See `ImageEngine.capabilities`; all slots have the same engine."""
        return next(filter(None, (slot.capabilities for slot in self._slots)), None)

    async def start(self) -> None:
        """Load all slots, so that no job waits for it. A fault is told to the first job."""
        results = await asyncio.gather(
            *(slot.ready() for slot in self._slots), return_exceptions=True
        )
        for result in results:
            if isinstance(result, WorkError):
                logger.error("engine %s: %s", self._name, result.message)
            elif isinstance(result, BaseException):
                raise result

    async def stop(self) -> None:
        """End all children, and start none again."""
        self._stopped = True
        for task in self._warming:
            task.cancel()
        await asyncio.gather(*self._warming, return_exceptions=True)
        await asyncio.gather(*(slot.close() for slot in self._slots))

    @asynccontextmanager
    async def open(
        self, job_id: str, parameters: EngineParameters, checkpoint: bytes | None, scratch: Path
    ) -> AsyncIterator[EngineRun]:
        """See `ImageEngine.open`."""
        slot = await self._idle.get()
        try:
            child = await slot.ready()
            run = ChildRun(child, self._limits)
            try:
                await self._begin(child, job_id, parameters, checkpoint, scratch)
                yield run
            finally:
                await run.close(self._cancel_grace_seconds)
        finally:
            self._idle.put_nowait(slot)
            self._warm(slot)

    async def _begin(
        self,
        child: Child,
        job_id: str,
        parameters: EngineParameters,
        checkpoint: bytes | None,
        scratch: Path,
    ) -> None:
        command = wire.RunCommand(
            job_id=job_id,
            parameters=parameters,
            has_checkpoint=checkpoint is not None,
            scratch=str(scratch),
            log_mark=child.expect_log_of(job_id),
        )
        child.tell(command, checkpoint or b"")
        await child.told(self._limits.step)

    def _warm(self, slot: Slot) -> None:
        """Start a child that died again before the next job asks for it."""
        if not slot.is_warm and not self._stopped:
            task = asyncio.create_task(_restart(slot))
            self._warming.add(task)
            task.add_done_callback(self._warming.discard)


async def _restart(slot: Slot) -> None:
    try:
        await slot.ready()
    except WorkError as error:
        # The next job tries again, and is told.
        logger.error("the engine could not be started again: %s", error.message)
