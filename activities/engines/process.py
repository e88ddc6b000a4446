"""A local engine as the activity sees it: child processes, one per slot, that may die at will."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from activities.engines import wire
from activities.engines.base import (
    CheckpointTaken,
    EngineEvent,
    EngineRun,
    ImageDone,
    PhaseBegun,
    StartedOver,
    StepDone,
)
from activities.errors import ErrorKind, WorkError
from activities.models import GenerationParameters, Model, Phase

logger = logging.getLogger("darkroom.engine")

# A line that a library prints without an end must not fill the worker's memory.
_LONGEST_LOG_LINE = 64 * 1024


@dataclass(frozen=True)
class StallLimits:
    """The longest silence of an engine, in seconds, by what it is doing."""

    load: float = 300
    step: float = 120
    decode: float = 120

    def of(self, phase: Phase) -> float:
        """The limit of one phase."""
        return {Phase.LOAD: self.load, Phase.STEP: self.step}.get(phase, self.decode)


@dataclass
class Slot:
    """One child process, started again whenever it has died."""

    engine: str
    limits: StallLimits
    process: asyncio.subprocess.Process | None = None
    job_id: str = ""
    _frames: "asyncio.Queue[wire.Frame | None]" = field(init=False)
    _readers: tuple[asyncio.Task[None], ...] = ()
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_alive(self) -> bool:
        """Whether there is a child that has not ended."""
        return self.process is not None and self.process.returncode is None

    async def ensure_ready(self) -> None:
        """Start the child if there is none, and wait until its engine is loaded."""
        async with self._starting:
            if self.is_alive:
                return
            await self._spawn()
            report, _ = await self.receive(self.limits.load, Phase.LOAD)
            if isinstance(report, wire.FailureEvent):
                await self.kill()
                raise WorkError(report.error, report.message)

    async def _spawn(self) -> None:
        await self.kill()
        events, child_end = os.pipe()
        try:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "activities.engines.child", self.engine, str(child_end)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                pass_fds=(child_end,),
                # Ctrl-C is for the worker, which brings its jobs to a checkpoint first.
                start_new_session=True,
                limit=_LONGEST_LOG_LINE,
            )
        except OSError as error:
            os.close(events)
            reason = os.strerror(error.errno or 0)
            raise WorkError(
                ErrorKind.ENGINE_UNAVAILABLE, f"the engine's process could not start: {reason}"
            ) from error
        finally:
            os.close(child_end)
        reports = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reports), os.fdopen(events, "rb")
        )
        # Few: a child that is faster than the store waits for it.
        self._frames = asyncio.Queue(maxsize=4)
        self._readers = (
            asyncio.create_task(_read_frames(reports, transport, self._frames)),
            asyncio.create_task(self._copy_log(self.process)),
        )

    async def send(self, command: Model, payload: bytes = b"") -> None:
        """Give a command. A child that is gone is noticed by the next `receive`."""
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                self.process.stdin.write(wire.encode(command, payload))
                await self.process.stdin.drain()

    async def receive(self, limit_seconds: float, phase: Phase) -> tuple[Model, bytes]:
        """The next report, or `WorkError` of the kind that fits the child's end or silence."""
        try:
            frame = await asyncio.wait_for(self._frames.get(), limit_seconds)
        except TimeoutError as error:
            await self.kill()
            message = f"the engine made no progress for {limit_seconds:g} s in phase {phase}"
            raise WorkError(ErrorKind.ENGINE_STALLED, message) from error
        if frame is None:
            raise await self._obituary()
        try:
            return wire.REPORTS.validate_json(frame.header), frame.payload
        except ValueError as error:
            await self.kill()
            message = "the engine's process said something that can't be understood"
            raise WorkError(ErrorKind.ENGINE_CRASHED, message) from error

    async def kill(self) -> None:
        """End the child and all that it started, at once."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()
            if self.process.stdin is not None:
                self.process.stdin.close()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        self.process, self._readers = None, ()

    async def _obituary(self) -> WorkError:
        """Why the child is gone, in words; whatever it had started goes with it."""
        process = self.process
        if process is None:
            return WorkError(ErrorKind.ENGINE_CRASHED, "the engine's process was stopped")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 1)
        code = process.returncode
        await self.kill()
        if code is None:
            return WorkError(ErrorKind.ENGINE_CRASHED, "the engine's process hung up")
        if code == -signal.SIGKILL:
            message = "the engine was killed by signal 9, most likely out of memory"
            return WorkError(ErrorKind.OUT_OF_MEMORY, message)
        if code < 0:
            name = signal.Signals(-code).name
            return WorkError(
                ErrorKind.ENGINE_CRASHED, f"the engine was killed by signal {-code} ({name})"
            )
        return WorkError(
            ErrorKind.ENGINE_CRASHED, f"the engine's process ended itself with code {code}"
        )

    async def _copy_log(self, process: asyncio.subprocess.Process) -> None:
        """Pass on what the child prints, with the job that it was printed for."""
        if process.stdout is None:
            return
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                # Longer than the limit: asyncio has dropped it, and the next line can be read.
                continue
            if not line:
                return
            logger.info(
                "engine[%s] job[%s]: %s",
                process.pid,
                self.job_id or "-",
                line.decode(errors="replace").rstrip(),
            )


async def _read_frames(
    stream: asyncio.StreamReader,
    transport: asyncio.ReadTransport,
    frames: "asyncio.Queue[wire.Frame | None]",
) -> None:
    """Read whole frames, whoever stops waiting for them in the middle; None is the end."""
    try:
        while True:
            await frames.put(await wire.read_frame_async(stream))
    except (asyncio.IncompleteReadError, ValueError):
        await frames.put(None)
    finally:
        transport.close()


class ChildRun:
    """One job in a slot."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._phase = Phase.STEP
        self._stop_grace: float | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.ended = False

    def request_stop(self, *, checkpoint: bool, grace_seconds: float) -> None:
        """See `EngineRun.request_stop`."""
        self._stop_grace = grace_seconds
        self._stopping = asyncio.create_task(self._stop(checkpoint, grace_seconds))

    async def _stop(self, checkpoint: bool, grace_seconds: float) -> None:
        await self._slot.send(wire.StopCommand(checkpoint=checkpoint))
        await asyncio.sleep(grace_seconds)
        if not self.ended:
            logger.warning("the engine did not stop within %g s; killing it", grace_seconds)
            await self._slot.kill()

    async def events(self) -> AsyncIterator[EngineEvent]:
        """See `EngineRun.events`."""
        try:
            async for event in self._events():
                yield event
        except WorkError:
            self.ended = True
            if self._stop_grace is None:
                raise
            # Killed, or dead while it was to stop: what it had checkpointed is what there is.
            logger.info("the engine ended while it was to stop")

    async def _events(self) -> AsyncIterator[EngineEvent]:
        while True:
            report, payload = await self._slot.receive(
                self._slot.limits.of(self._phase), self._phase
            )
            match report:
                case wire.EndReport():
                    self.ended = True
                    return
                case wire.FailureEvent():
                    self.ended = True
                    if report.fatal:
                        await self._slot.kill()
                    raise WorkError(
                        report.error,
                        report.message,
                        retry_after_seconds=report.retry_after_seconds,
                    )
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
                case wire.ImageReport():
                    yield ImageDone(payload, report.media_type)

    async def close(self, grace_seconds: float) -> None:
        """Free the slot: by asking, then by force."""
        if not self.ended and self._stop_grace is None:
            self.request_stop(checkpoint=False, grace_seconds=grace_seconds)
        if not self.ended:
            async for _ in self.events():
                pass
        if self._stopping is not None:
            self._stopping.cancel()
            await asyncio.gather(self._stopping, return_exceptions=True)


class ChildProcessEngine:
    """`slots` child processes of one local engine, each with a job at a time.

    `engine` names a class, `module:Class`, that the child imports: the worker itself never loads
    a model, and survives whatever the engine does.
    """

    def __init__(
        self, name: str, engine: str, slots: int, limits: StallLimits, cancel_grace_seconds: float
    ) -> None:
        self._name = name
        self._cancel_grace_seconds = cancel_grace_seconds
        self._slots = [Slot(engine, limits) for _ in range(slots)]
        self._idle: asyncio.Queue[Slot] = asyncio.Queue()
        self._warming: set[asyncio.Task[None]] = set()
        for slot in self._slots:
            self._idle.put_nowait(slot)

    @property
    def name(self) -> str:
        """See `ImageEngine.name`."""
        return self._name

    async def start(self) -> None:
        """Load all slots, so that no job waits for it. A fault is told to the first job."""
        results = await asyncio.gather(
            *(slot.ensure_ready() for slot in self._slots), return_exceptions=True
        )
        for result in results:
            if isinstance(result, WorkError):
                logger.error("engine %s: %s", self._name, result.message)
            elif isinstance(result, BaseException):
                raise result

    async def stop(self) -> None:
        """End all children."""
        for task in self._warming:
            task.cancel()
        await asyncio.gather(*self._warming, return_exceptions=True)
        await asyncio.gather(*(slot.kill() for slot in self._slots))

    @asynccontextmanager
    async def open(
        self, job_id: str, parameters: GenerationParameters, checkpoint: bytes | None, scratch: Path
    ) -> AsyncIterator[EngineRun]:
        """See `ImageEngine.open`."""
        slot = await self._idle.get()
        try:
            slot.job_id = job_id
            await slot.ensure_ready()
            run = ChildRun(slot)
            command = wire.RunCommand(
                parameters=parameters,
                has_checkpoint=checkpoint is not None,
                scratch=str(scratch),
            )
            await slot.send(command, checkpoint or b"")
            try:
                yield run
            finally:
                await run.close(self._cancel_grace_seconds)
        finally:
            slot.job_id = ""
            self._idle.put_nowait(slot)
            self._warm(slot)

    def _warm(self, slot: Slot) -> None:
        """Start a child that died again before the next job asks for it."""
        if not slot.is_alive:
            task = asyncio.create_task(_restart(slot))
            self._warming.add(task)
            task.add_done_callback(self._warming.discard)


async def _restart(slot: Slot) -> None:
    try:
        await slot.ensure_ready()
    except WorkError as error:
        # The next job tries again, and is told.
        logger.error("the engine could not be started again: %s", error.message)
