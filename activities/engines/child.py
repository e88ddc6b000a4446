"""The child process of one engine slot: loads its engine once, then serves one job after another.

Started as `python -m activities.engines.child MODULE:CLASS EVENTS_FD`.
"""

import ctypes
import importlib
import logging
import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO, cast

from activities.engines import wire
from activities.engines.base import ImageDone, LocalEngine, PhaseBegun, StartedOver, StepDone
from activities.errors import ErrorKind, WorkError
from activities.models import Model

# A checkpoint is taken once its cost, as the last one measured it, is below 2 % of the work since.
_CHECKPOINT_SHARE = 0.02
_SHORTEST_CHECKPOINT_INTERVAL = 2.0

_PR_SET_PDEATHSIG = 1
# The worker's heartbeats, cancels and claims go before one more step.
_NICENESS = 5

logger = logging.getLogger("darkroom.engine")


class Commands:
    """What the worker sends, read by a thread of its own.

    The end of the stream means that the worker is gone, however it went: then so is the child.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._runs: queue.Queue[tuple[wire.RunCommand, bytes | None]] = queue.Queue()
        self.stop: wire.StopCommand | None = None
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def next_run(self) -> tuple[wire.RunCommand, bytes | None]:
        """Wait for the next job."""
        return self._runs.get()

    def _read(self, stream: BinaryIO) -> None:
        while (frame := wire.read_frame(stream)) is not None:
            command = wire.COMMANDS.validate_json(frame.header)
            if isinstance(command, wire.StopCommand):
                self.stop = command
            else:
                self.stop = None
                self._runs.put((command, frame.payload if command.has_checkpoint else None))
        os._exit(0)


class Reports:
    """What the worker is told."""

    def __init__(self, fd: int) -> None:
        self._stream = os.fdopen(fd, "wb", buffering=0)

    def send(self, message: Model, payload: bytes = b"") -> None:
        """Tell it whole, or end with the worker that no longer listens."""
        view = memoryview(wire.encode(message, payload))
        while view:
            view = view[self._stream.write(view) :]


class CheckpointClock:
    """Decides when a checkpoint is worth its cost."""

    def __init__(self) -> None:
        self._last_at = time.monotonic()
        self._interval = _SHORTEST_CHECKPOINT_INTERVAL

    @property
    def is_due(self) -> bool:
        """Whether enough work was done since the last one."""
        return time.monotonic() - self._last_at >= self._interval

    def taken(self, cost_seconds: float) -> None:
        """One was taken, at this cost."""
        self._last_at = time.monotonic()
        self._interval = max(_SHORTEST_CHECKPOINT_INTERVAL, cost_seconds / _CHECKPOINT_SHARE)


class Job:
    """One job in this child."""

    def __init__(self, engine: LocalEngine, commands: Commands, reports: Reports) -> None:
        self._engine = engine
        self._commands = commands
        self._reports = reports
        self._clock = CheckpointClock()

    def run(self, command: wire.RunCommand, checkpoint: bytes | None) -> None:
        """Run to the image or to a requested stop."""
        tempfile.tempdir = os.environ["TMPDIR"] = command.scratch
        events = cast("Iterator[object]", iter(self._engine.run(command.parameters, checkpoint)))
        with closing(_Closable(events)):
            for event in events:
                if self._tell(event):
                    break
        self._reports.send(wire.EndReport())

    def _tell(self, event: object) -> bool:
        """Pass one event on; whether the job ends here because a stop was asked for."""
        match event:
            case StepDone():
                self._reports.send(wire.StepReport(step=event.step, total_steps=event.total_steps))
                return self._after_step(event)
            case PhaseBegun(phase):
                self._reports.send(wire.PhaseReport(phase=phase))
            case StartedOver(reason):
                self._reports.send(wire.StartedOverReport(reason=reason))
            case ImageDone(data, media_type):
                self._reports.send(wire.ImageReport(media_type=media_type), data)
            case _:
                raise TypeError(f"an engine can't yield {type(event).__name__}")
        return False

    def _after_step(self, event: StepDone) -> bool:
        stop = self._commands.stop
        is_last = event.step >= event.total_steps
        wanted = stop.checkpoint if stop else self._clock.is_due and not is_last
        if wanted and event.snapshot is not None:
            started = time.monotonic()
            self._reports.send(wire.CheckpointReport(step=event.step), event.snapshot())
            self._clock.taken(time.monotonic() - started)
        return stop is not None


class _Closable:
    """Closes a generator at once, so that its cleaning-up is over before the next job."""

    def __init__(self, events: Iterator[object]) -> None:
        self._events = events

    def close(self) -> None:
        close = getattr(self._events, "close", None)
        if close is not None:
            close()


def serve(engine: LocalEngine, commands: Commands, reports: Reports) -> None:
    """Load, then serve for ever; ends the process after a failure that may have broken it."""
    try:
        engine.load()
    except Exception as error:
        logger.exception("the engine could not be loaded")
        reports.send(_failure(error, ErrorKind.ENGINE_UNAVAILABLE, fatal=True))
        return
    reports.send(wire.ReadyReport())
    while True:
        command, checkpoint = commands.next_run()
        try:
            Job(engine, commands, reports).run(command, checkpoint)
        except Exception as error:
            fatal = not isinstance(error, WorkError)
            if fatal:
                logger.exception("the engine failed")
            reports.send(_failure(error, ErrorKind.ENGINE_CRASHED, fatal=fatal))
            if fatal:
                return


def _failure(error: Exception, otherwise: ErrorKind, *, fatal: bool) -> wire.FailureEvent:
    if isinstance(error, WorkError):
        return wire.FailureEvent(
            error=error.kind,
            message=error.message,
            retry_after_seconds=error.retry_after_seconds,
            fatal=fatal,
        )
    if isinstance(error, MemoryError):
        message = "the engine ran out of memory"
        return wire.FailureEvent(error=ErrorKind.OUT_OF_MEMORY, message=message, fatal=fatal)
    # What an exception says may hold paths and prompts: the log has it, the user gets its name.
    message = f"the engine failed with {type(error).__name__}"
    return wire.FailureEvent(error=otherwise, message=message, fatal=fatal)


def _die_with_parent() -> None:
    """On Linux the kernel ends this process with its worker, even while native code hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Serve the engine named on the command line."""
    _die_with_parent()
    os.nice(_NICENESS)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    module, _, name = sys.argv[1].partition(":")
    reports = Reports(int(sys.argv[2]))
    commands = Commands(sys.stdin.buffer)
    try:
        engine: LocalEngine = getattr(importlib.import_module(module), name)()
        serve(engine, commands, reports)
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    main()
