"""A `make run` of its own for a test: free ports, its own data folder, nothing left behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.processes import command_of

PROJECT = Path(__file__).resolve().parents[2]
REAL: Sequence[str] = (sys.executable, str(PROJECT / "dev.py"))


def wait_until(what: str, condition: Callable[[], bool], timeout: float = 20.0) -> None:
    """Fail with `what` unless the condition holds in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(0.02)


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    """Whether somebody accepts connections on the port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Stack:
    """One dev.py on free ports; its console is collected in two files beside its data folder."""

    data_dir: Path
    command: Sequence[str] = REAL
    extra: Mapping[str, str] = field(default_factory=dict)
    temporal_port: int = field(default_factory=free_port)
    ui_port: int = field(default_factory=free_port)
    api_port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def temporal_address(self) -> str:
        return f"127.0.0.1:{self.temporal_port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    def environ(self) -> dict[str, str]:
        """The settings of this stack over the environment of the tests."""
        # Under `make test` it would take itself for a child of make.
        inherited = {name: value for name, value in os.environ.items() if name != "MAKELEVEL"}
        return inherited | {
            "DARKROOM_DATA_DIR": str(self.data_dir),
            "DARKROOM_TEMPORAL_PORT": str(self.temporal_port),
            "DARKROOM_TEMPORAL_UI_PORT": str(self.ui_port),
            "DARKROOM_API_PORT": str(self.api_port),
            **self.extra,
        }

    def start(self) -> None:
        """Start dev.py in a session of its own, like a terminal does."""
        with self._console("out").open("wb") as out, self._console("err").open("wb") as err:
            self._process = subprocess.Popen(
                self.command,
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def wait_for_line(self, pattern: str, timeout: float = 30.0) -> str:
        """The first console line that matches; fails at once when dev.py ended without it."""

        def seen_or_ended() -> bool:
            return self.line(pattern) is not None or self.process.poll() is not None

        wait_until(f"a line like {pattern!r}", seen_or_ended, timeout)
        line = self.line(pattern)
        assert line is not None, f"ended with {self.process.returncode}: {self.out}{self.err}"
        return line

    def wait_until_ready(self, timeout: float = 90.0) -> None:
        """Return when dev.py has printed where everything is."""
        self.wait_for_line("Darkroom is running", timeout)

    def line(self, pattern: str) -> str | None:
        """The first line of the console so far that matches."""
        return next((line for line in self.out.splitlines() if re.search(pattern, line)), None)

    @property
    def out(self) -> str:
        return self._console("out").read_text()

    @property
    def err(self) -> str:
        return self._console("err").read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout: float = 60.0) -> int:
        """Send one signal to dev.py and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout)

    def start_worker(self) -> subprocess.Popen[bytes]:
        """One more worker beside the stack's own; the caller ends it."""
        environ = self.environ() | {
            "TEMPORAL_ADDRESS": self.temporal_address,
            "TEMPORAL_NAMESPACE": "default",
            "DARKROOM_HEALTH_PORT": "0",
        }
        with (self.data_dir / "logs" / "extra.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "worker.py"], cwd=PROJECT, env=environ, stdout=log, stderr=log
            )

    def pids(self, program: str = "") -> list[int]:
        """Live processes of this stack, dev.py and its guard included, by a part of their name."""
        return [pid for pid in _pids_with(self.data_dir) if program in command_of(pid)]

    def clean_up(self) -> None:
        """End whatever a failed test left."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    def _console(self, stream: str) -> Path:
        return self.data_dir.parent / f"{self.data_dir.name}.{stream}"


@contextmanager
def running(stack: Stack) -> Iterator[Stack]:
    """Start a stack; nothing of it is left afterwards."""
    stack.start()
    try:
        yield stack
    finally:
        stack.clean_up()


def _pids_with(data_dir: Path) -> list[int]:
    marker = f"DARKROOM_DATA_DIR={data_dir}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()  # empty for a zombie
        except OSError:  # gone since, or somebody else's
            continue
        if marker in environ.split(b"\0"):
            found.append(int(folder.name))
    return found
