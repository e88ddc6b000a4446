"""The child process of one engine slot: loads its engine once, then serves one job after another.

Started as `python -m activities.engines.child MODULE:CLASS EVENTS_FD`.
"""

import contextlib
import importlib
import logging
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO, NoReturn, cast

from activities.engines import wire
from activities.engines.base import (
    ImageDone,
    LabelRemoved,
    LocalEngine,
    PhaseBegun,
    StartedOver,
    StepDone,
    capabilities_of,
)
from activities.engines.guard import leave_guard, stand_back
from activities.errors import ErrorKind, WorkError, clean_text
from activities.values import Model

# A checkpoint is taken once its cost, as the last one measured it, is below 2 % of the work since.
_CHECKPOINT_SHARE = 0.02
_SHORTEST_CHECKPOINT_INTERVAL = 2.0

_STANDARD_INPUT, _STANDARD_OUTPUT = 0, 1

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
        try:
            while (frame := wire.read_frame(stream)) is not None:
                self._take(frame)
        finally:
            # Also where a command can't be read: a child that hears nothing more is of no use.
            os._exit(0)

    def _take(self, frame: wire.Frame) -> None:
        command = wire.COMMANDS.validate_json(frame.header)
        if isinstance(command, wire.StopCommand):
            self.stop = command
        else:
            self.stop = None
            self._runs.put((command, frame.payload if command.has_checkpoint else None))


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
        _mark_log(command.log_mark)
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
                self._reports.send(wire.StartedOverReport(reason=clean_text(reason)))
            case LabelRemoved(removed):
                self._reports.send(wire.LabelRemovedReport(removed=removed))
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
            self._keep(event.step, event.snapshot())
            self._clock.taken(time.monotonic() - started)
        return stop is not None

    def _keep(self, step: int, checkpoint: bytes) -> None:
        if len(checkpoint) <= wire.MAX_CHECKPOINT:
            self._reports.send(wire.CheckpointReport(step=step), checkpoint)
        else:
            # The worker would refuse it, and the job can do without.
            logger.warning("a checkpoint of %d bytes is too large to be kept", len(checkpoint))


class _Closable:
    """Closes a generator at once, so that its cleaning-up is over before the next job."""

    def __init__(self, events: Iterator[object]) -> None:
        self._events = events

    def close(self) -> None:
        close = getattr(self._events, "close", None)
        if close is not None:
            close()


def serve(spec: str, commands: Commands, reports: Reports) -> None:
    """Load, then serve for ever; returns after a failure that may have broken the process."""
    try:
        module, _, name = spec.partition(":")
        engine: LocalEngine = getattr(importlib.import_module(module), name)()
        engine.load()
    # Whatever it is, it keeps this engine from serving, and the worker must know.
    except Exception as error:
        logger.exception("the engine could not be loaded")
        reports.send(_failure(error, ErrorKind.ENGINE_UNAVAILABLE, "could not be loaded"))
        return
    reports.send(wire.ReadyReport(capabilities=capabilities_of(engine)))
    while _serve_one(engine, commands, reports):
        pass


def _serve_one(engine: LocalEngine, commands: Commands, reports: Reports) -> bool:
    """Serve one job; whether this process can serve another one."""
    command, checkpoint = commands.next_run()
    try:
        Job(engine, commands, reports).run(command, checkpoint)
    except WorkError as error:
        reports.send(_failure(error, ErrorKind.ENGINE_CRASHED, "refused", fatal=False))
    # Nobody knows what state an engine is in that failed in a way it doesn't know itself.
    except Exception as error:
        logger.exception("the engine failed")
        reports.send(_failure(error, ErrorKind.ENGINE_CRASHED, "failed"))
        return False
    return True


def _failure(
    error: Exception, otherwise: ErrorKind, what: str, *, fatal: bool = True
) -> wire.FailureEvent:
    known = _in_words(error, otherwise, what)
    return wire.FailureEvent(
        error=known.kind,
        message=known.message,
        retry_after_seconds=known.retry_after_seconds,
        fatal=fatal,
    )


def _in_words(error: Exception, otherwise: ErrorKind, what: str) -> WorkError:
    if isinstance(error, WorkError) and not error.kind.is_from_outside:
        return error
    if isinstance(error, MemoryError):
        return WorkError(ErrorKind.OUT_OF_MEMORY, "the engine ran out of memory")
    # What an exception says may hold paths and prompts: the log has it, the user gets its name.
    return WorkError(otherwise, f"the engine {what}: {type(error).__name__}")


def _mark_log(mark: str) -> None:
    """Say in the log, which has a pipe of its own, that the job's lines follow."""
    sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(_STANDARD_OUTPUT, b"\n" + mark.encode() + b"\n")


def _take_standard_input() -> BinaryIO:
    """What the worker sends. An engine may read and close its standard input as it likes."""
    commands = os.fdopen(os.dup(_STANDARD_INPUT), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STANDARD_INPUT)
    os.close(nothing)
    return commands


def main() -> NoReturn:
    """Serve the engine named on the command line."""
    leave_guard()
    stand_back()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    code: object = 0
    try:
        serve(sys.argv[1], Commands(_take_standard_input()), Reports(int(sys.argv[2])))
    except SystemExit as error:
        code = error.code
    sys.stdout.flush()
    # Not by the interpreter's way out, on which it would wait for the engine's own threads.
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main()
