"""Engines with real faults, for tests and for trying things by hand.

`DARKROOM_ENGINES=procedural,faulty=tests.faulty_engine:FaultyEngine python worker.py`, then give
a job `engine_options` as `{"fault": "segfault", "at_step": 2}`.
"""

import contextlib
import ctypes
import hashlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from activities.engines.base import (
    Capabilities,
    ImageDone,
    LocalEvent,
    PhaseBegun,
    StartedOver,
    StepDone,
)
from activities.errors import ErrorKind, WorkError
from activities.models import GenerationParameters, Phase

FOR_EVER = 3600
LOADS = "DARKROOM_TEST_LOADS"


class FaultyEngine:
    """Draws a tiny PNG, unless `engine_options` ask for a fault.

    `fault`, or several with + between them, happens before step `at_step` is done (1 unless
    given), each time, or only once if
    `once_marker` names a file that remembers it. Each step takes `step_seconds`. A checkpoint is
    padded to `checkpoint_bytes`, and `image_bytes` zeros stand for the image. `after_image` is a
    fault that happens once the image was given.
    """

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(seed=True, progress=True, checkpoint=True, targeted_cancel=True)

    def load(self) -> None:
        """Count the loads in the file that the environment names."""
        if path := os.environ.get(LOADS):
            with Path(path).open("a", encoding="ascii") as file:
                file.write(f"{os.getpid()}\n")

    def run(
        self, parameters: GenerationParameters, checkpoint: bytes | None
    ) -> Iterator[LocalEvent]:
        """Yield `num_inference_steps` steps and an image that depends on each of them."""
        options = parameters.engine_options
        step, digest = 0, hashlib.sha256(parameters.prompt.encode()).hexdigest()
        if checkpoint is not None and (state := _read(checkpoint, options)) is None:
            yield StartedOver("the checkpoint is damaged")
        elif checkpoint is not None and state is not None:
            step, digest = state
        total = parameters.num_inference_steps
        try:
            while step < total:
                step += 1
                if step == options.get("at_step", 1) and _happens(options):
                    for fault in options["fault"].split("+"):
                        yield from FAULTS[fault](parameters)
                time.sleep(options.get("step_seconds", 0))
                digest = hashlib.sha256(f"{digest} {step} {parameters.seed}".encode()).hexdigest()
                yield StepDone(step, total, partial(_write, step, digest, options))
        finally:
            time.sleep(options.get("clean_up_seconds", 0))
        if options.get("fault") != "no_image":
            yield PhaseBegun(Phase.DECODE)
            yield ImageDone(_image(digest, options), "image/png")
        if fault := options.get("after_image"):
            yield from FAULTS[fault](parameters)


class NoCheckpointEngine(FaultyEngine):
    """The same, but no step can be gone on from."""

    def run(
        self, parameters: GenerationParameters, checkpoint: bytes | None
    ) -> Iterator[LocalEvent]:
        """Leave the snapshots out."""
        for event in super().run(parameters, checkpoint):
            yield replace(event, snapshot=None) if isinstance(event, StepDone) else event


class BrokenLoadEngine(FaultyEngine):
    """Can't be loaded, and doesn't know why."""

    def load(self) -> None:
        raise RuntimeError("secret: /etc/shadow")


class MissingModelEngine(FaultyEngine):
    """Can't be loaded, and says why."""

    def load(self) -> None:
        raise WorkError(ErrorKind.ENGINE_UNAVAILABLE, "the model's folder is missing")


class SlowLoadEngine(FaultyEngine):
    """Takes its time."""

    def load(self) -> None:
        super().load()
        time.sleep(FOR_EVER)


def _happens(options: dict[str, Any]) -> bool:
    marker = options.get("once_marker")
    if "fault" not in options or (marker and Path(marker).exists()):
        return False
    if marker:
        Path(marker).touch()
    return True


def _write(step: int, digest: str, options: dict[str, Any]) -> bytes:
    state = json.dumps({"step": step, "digest": digest}).encode()
    return state.ljust(options.get("checkpoint_bytes", 0))


def _read(checkpoint: bytes, options: dict[str, Any]) -> tuple[int, str] | None:
    with contextlib.suppress(ValueError, KeyError):
        state = json.loads(checkpoint)
        if len(checkpoint) >= options.get("checkpoint_bytes", 0):
            return int(state["step"]), str(state["digest"])
    return None


def _image(digest: str, options: dict[str, Any]) -> bytes:
    if options.get("fault") == "not_an_image":
        return b"<html>it works</html>"
    if size := options.get("image_bytes"):
        return bytes(size)
    buffer = io.BytesIO()
    Image.frombytes("RGB", (64, 64), bytes.fromhex(digest) * 384).save(buffer, "PNG")
    return buffer.getvalue()


def _kill_with(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.pause()


def _hang_native() -> None:
    """Sleep in C with Python's lock held: no thread of this process does anything more."""
    ctypes.PyDLL(None).sleep(FOR_EVER)


def _use_all_memory() -> None:
    """Allocate until the limit of this process refuses, as a container's or a card's would."""
    limit = 1 << 32
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    bytearray(2 * limit)


def _refuse(parameters: GenerationParameters) -> None:
    kind = ErrorKind(parameters.engine_options.get("kind", "CONTENT_REJECTED"))
    raise WorkError(kind, "the prompt is not allowed", retry_after_seconds=7)


def _print_junk(parameters: GenerationParameters) -> None:
    print("a line of", parameters.prompt)  # noqa: T201
    sys.stderr.write("x" * parameters.engine_options.get("junk_bytes", 0) + "\n")
    os.write(1, b"\xff\xfe no text \x00\n")


def _flood() -> None:
    while True:
        os.write(1, b"x\n")


def _refuse_at_length() -> None:
    raise WorkError(ErrorKind.CONTENT_REJECTED, "not \ud800 allowed\x1b[31m\n" + "!" * 2_000_000)


def _write_garbage(parameters: GenerationParameters) -> None:
    garbage = parameters.engine_options.get("garbage", "printed into the wrong pipe\n")
    os.write(int(sys.argv[2]), garbage.encode("latin-1"))


def _close_events() -> None:
    os.close(int(sys.argv[2]))
    time.sleep(FOR_EVER)


def _fork_child(parameters: GenerationParameters) -> None:
    """Leave a process behind that holds every pipe open, and say which."""
    options = parameters.engine_options
    child = subprocess.Popen(
        ["/bin/sleep", str(FOR_EVER)],
        close_fds=False,
        start_new_session=options.get("new_session", False),
    )
    Path(options["pid_file"]).write_text(str(child.pid), encoding="ascii")
    forked = os.fork()
    if forked == 0:
        time.sleep(FOR_EVER)


def _leave_files() -> None:
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"left")
    Path(os.environ["TMPDIR"], "more").mkdir()
    os.kill(os.getpid(), signal.SIGSEGV)


def _raise() -> None:
    raise RuntimeError("secret: /etc/shadow")


def _out_of_memory() -> None:
    raise MemoryError


Fault = Callable[[GenerationParameters], object]

_ACTS: dict[str, Fault] = {
    "raise": lambda _: _raise(),
    "exit": lambda _: sys.exit(3),
    "os_exit": lambda _: os._exit(4),
    "segfault": lambda _: ctypes.string_at(0),
    "abort": lambda _: os.abort(),
    "sigkill": lambda _: _kill_with(signal.SIGKILL),
    "hang": lambda _: time.sleep(FOR_EVER),
    "ignore_stop": lambda _: time.sleep(FOR_EVER),
    "hang_native": lambda _: _hang_native(),
    "no_image": lambda _: None,
    "not_an_image": lambda _: None,
    "memory": lambda _: _out_of_memory(),
    "oom": lambda _: _use_all_memory(),
    "work_error": _refuse,
    "work_error_at_length": lambda _: _refuse_at_length(),
    "print_junk": _print_junk,
    "flood": lambda _: _flood(),
    "close_stdin": lambda _: os.close(0),
    "write_garbage_to_events": _write_garbage,
    "close_events": lambda _: _close_events(),
    "slow_stop": lambda _: time.sleep(1),
    "fork_child": _fork_child,
    "leave_files": lambda _: _leave_files(),
}


def _yields(act: Fault) -> Callable[[GenerationParameters], Iterator[LocalEvent]]:
    def run(parameters: GenerationParameters) -> Iterator[LocalEvent]:
        act(parameters)
        yield from ()

    return run


def _yield_nonsense(parameters: GenerationParameters) -> Iterator[LocalEvent]:
    yield "nonsense"  # type: ignore[misc]


FAULTS: dict[str, Callable[[GenerationParameters], Iterator[LocalEvent]]] = {
    **{name: _yields(act) for name, act in _ACTS.items()},
    "yield_nonsense": _yield_nonsense,
    "yield_far_step": lambda _: iter([StepDone(2_000_000, 3_000_000)]),
    "yield_step_below_zero": lambda _: iter([StepDone(-1, 3)]),
}
