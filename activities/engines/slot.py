"""The child process in an engine's slot, as the worker holds it: started, heard, and ended."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
from dataclasses import dataclass, field

from activities.engines import wire
from activities.engines.base import Capabilities
from activities.engines.child_log import ChildLog
from activities.engines.kin import kill_kin, new_mark
from activities.engines.launch import Pipe, launch
from activities.errors import ErrorKind, WorkError
from activities.models import Phase
from activities.values import Model

logger = logging.getLogger("darkroom.engine")

# A child that is faster than the store waits for it: what it says may be hundreds of megabytes.
_FRAMES_AHEAD = 1
# How long pipe and process may differ about the child's end; then it is forced.
_LAST_WORDS_SECONDS = 1.0
# A process that the kernel can't end, in a driver for instance, must not hold its job.
_LONGEST_GOODBYE_SECONDS = 5.0
_NONSENSE = "the engine's process said something that can't be understood"


@dataclass(frozen=True)
class StallLimits:
    """The longest silence of an engine, in seconds, by what it is doing."""

    load: float = 300
    step: float = 120
    decode: float = 120

    def of(self, phase: Phase) -> float:
        """The limit of one phase."""
        return {Phase.LOAD: self.load, Phase.STEP: self.step}.get(phase, self.decode)


class Child:
    """One child process and the pipes to it; used up once it is killed or has ended.

    A task of its own reads whole frames, so that a consumer which is cancelled breaks none, and
    another one sees the process off: whatever it had started is ended with it.
    """

    def __init__(
        self, mark: str, process: asyncio.subprocess.Process, events: Pipe, output: Pipe
    ) -> None:
        self._mark = mark
        self._process = process
        self._pipes = (events, output)
        self._frames: asyncio.Queue[tuple[Model, bytes] | None] = asyncio.Queue()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_loaded = False
        self.capabilities: Capabilities | None = None
        self._killed = False
        self._fault = ""
        self._reader = asyncio.create_task(self._read_frames(events.stream))
        self._log = ChildLog(process.pid)
        self._log_copying = asyncio.create_task(self._log.copy(output.stream))
        self.farewell = asyncio.create_task(self._see_off())

    @classmethod
    async def start(cls, engine: str) -> "Child":
        """Start a process for the engine named `module:Class`; raises `WorkError`."""
        mark = new_mark()
        return cls(mark, *await launch(engine, mark))

    @property
    def is_usable(self) -> bool:
        """Whether it can be given a job."""
        return not (self._killed or self._reader.done() or self._process.returncode is not None)

    async def load(self, limit_seconds: float) -> None:
        """Wait until the engine is loaded, or raise `WorkError`."""
        if self._is_loaded:
            return
        report, _ = await self.receive(limit_seconds, Phase.LOAD)
        if isinstance(report, wire.FailureEvent):
            self.kill()
            raise WorkError(
                report.error, report.message, retry_after_seconds=report.retry_after_seconds
            )
        if isinstance(report, wire.ReadyReport):
            self.capabilities = report.capabilities
        self._is_loaded = True

    def expect_log_of(self, job_id: str) -> str:
        """The line with which the child has to begin what it prints for the job."""
        mark = secrets.token_hex(16)
        self._log.expect(mark, job_id)
        return mark

    def tell(self, command: Model, payload: bytes = b"") -> None:
        """Give a command. A child that is gone is noticed by the next `receive`."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(wire.encode(command, payload))

    async def told(self, limit_seconds: float) -> None:
        """Wait until the child has taken all commands; one that doesn't is killed."""
        try:
            async with asyncio.timeout(limit_seconds):
                if self._process.stdin is not None:
                    await self._process.stdin.drain()
        except TimeoutError:
            self.kill()
        # It is gone, and the next `receive` knows why.
        except ConnectionError:
            return

    async def receive(self, limit_seconds: float, phase: Phase) -> tuple[Model, bytes]:
        """The next report, or `WorkError` of the kind that fits the child's end or silence."""
        try:
            # Not wait_for: before Python 3.12 it may swallow a cancellation.
            async with asyncio.timeout(limit_seconds):
                frame = await self._frames.get()
        except TimeoutError as error:
            self.kill()
            message = f"the engine made no progress for {limit_seconds:g} s in phase {phase}"
            raise WorkError(ErrorKind.ENGINE_STALLED, message) from error
        if frame is None:
            self._frames.put_nowait(None)
            raise self._obituary()
        self._make_room()
        return frame

    def kill(self) -> None:
        """End it and all that it started. Nobody needs to listen to it any longer."""
        self._killed = True
        self._kill_group()
        self._has_room.set()

    async def gone(self) -> None:
        """Return once nothing of it is left."""
        await asyncio.wait([self.farewell], timeout=_LONGEST_GOODBYE_SECONDS)

    def _kill_group(self) -> None:
        # Right after its end at the latest, or the number could be somebody else's by then.
        if not self.farewell.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _see_off(self) -> None:
        """Stay until the end; the None that closes the queue comes after all that was said."""
        ended = asyncio.create_task(self._process.wait())
        await asyncio.wait([ended, self._reader], return_when=asyncio.FIRST_COMPLETED)
        if not self._fault:
            await asyncio.wait([ended], timeout=_LAST_WORDS_SECONDS)
            self._fault = "" if ended.done() else "the engine's process hung up"
        self._kill_group()
        await ended
        # In a thread: it goes through all processes of this machine.
        await asyncio.to_thread(kill_kin, self._mark)
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.transport.abort()
        # A process that left the group may hold the other ends open, and they would never end.
        ends = asyncio.gather(self._reader, self._log_copying)
        await asyncio.wait([ends], timeout=_LAST_WORDS_SECONDS)
        for pipe in self._pipes:
            pipe.transport.close()
        await ends
        self._frames.put_nowait(None)

    async def _read_frames(self, stream: asyncio.StreamReader) -> None:
        # The end of the stream, which may come in the middle of a frame.
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                await self._has_room.wait()
                try:
                    self._frames.put_nowait(await wire.read_report(stream))
                except wire.OversizeError as error:
                    self._fault = str(error)
                    return
                except ValueError:
                    self._fault = _NONSENSE
                    return
                self._make_room()

    def _make_room(self) -> None:
        if self._killed or self._frames.qsize() < _FRAMES_AHEAD:
            self._has_room.set()
        else:
            self._has_room.clear()

    def _obituary(self) -> WorkError:
        """Why the child is gone, in words."""
        code = self._process.returncode
        if self._killed or code is None:
            return WorkError(ErrorKind.ENGINE_CRASHED, "the engine's process was stopped")
        if self._fault:
            return WorkError(ErrorKind.ENGINE_CRASHED, self._fault)
        if code == -signal.SIGKILL:
            message = "the engine was killed by signal 9, most likely out of memory"
            return WorkError(ErrorKind.OUT_OF_MEMORY, message)
        if code < 0:
            message = f"the engine was killed by signal {-code} ({_signal_name(-code)})"
            return WorkError(ErrorKind.ENGINE_CRASHED, message)
        message = f"the engine's process ended itself with code {code}"
        return WorkError(ErrorKind.ENGINE_CRASHED, message)


@dataclass
class Slot:
    """A place for one child, which is started again whenever it has died."""

    engine: str
    limits: StallLimits
    capabilities: Capabilities | None = None
    _child: Child | None = None
    _is_closed: bool = False
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_warm(self) -> bool:
        """Whether there is a child that can be given a job."""
        return self._child is not None and self._child.is_usable

    async def ready(self) -> Child:
        """The child, with its engine loaded; raises `WorkError` if that can't be."""
        async with self._starting:
            if self._child is None or not self._child.is_usable:
                await self._end_child()
                self._child = await Child.start(self.engine)
            if self._is_closed:
                self._child.kill()
            await self._child.load(self.limits.load)
            self.capabilities = self._child.capabilities
            return self._child

    async def close(self) -> None:
        """End the child, and never have one again."""
        self._is_closed = True
        await self._end_child()

    async def _end_child(self) -> None:
        if self._child is not None:
            self._child.kill()
            await self._child.gone()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # A real-time signal between the first and the last has no name of its own.
        return "a real-time signal"
