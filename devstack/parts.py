"""One part of the stack: started, watched, started again when it dies, stopped within its grace."""

import asyncio
import re
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from devstack.console import DevError, say
from devstack.guard import kill_group

Command = tuple[str, ...]
Check = Callable[[], Awaitable[bool]]

READY_TIMEOUT_SECONDS = 60.0
READY_POLL_SECONDS = 0.05
DEATHS_ALLOWED = 5
DEATHS_WINDOW_SECONDS = 60.0
STEADY_SECONDS = 5.0
ECHO_SECONDS = 0.5
# What a part writes beyond this between two looks stays in its file.
LARGEST_ECHO = 1 << 20
WORTH_SHOWING = re.compile(rb"WARN|ERROR|CRITICAL|FATAL", re.IGNORECASE)


@dataclass(frozen=True)
class Part:
    """One program: how to start it, how to know that it answers, how long it may take to stop."""

    name: str
    command: Command
    cwd: Path
    env: Mapping[str, str]
    log: Path
    grace_seconds: float
    is_ready: Check


class RunningPart:
    """One part over all its lives: at most one process at a time."""

    def __init__(self, part: Part, changed: Callable[[], None]) -> None:
        self.part = part
        self.process: asyncio.subprocess.Process | None = None
        self._changed = changed
        self._ready_at: float | None = None
        # Where in the log this life begins, and how far the console has seen it.
        self._born_at = self._echoed = _size(part.log)

    @property
    def pid(self) -> int | None:
        """The live process."""
        if self.process is None or self.process.returncode is not None:
            return None
        return self.process.pid

    async def start(self) -> None:
        """Start the program and return when it answers.

        Raises:
            DevError: it could not be started, died, or did not answer in time.
        """
        self._ready_at = None
        process = await self._spawn()
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        # Death first: whatever answers on the port of a dead part is somebody else.
        while process.returncode is None:
            if await self.part.is_ready():
                self._ready_at = time.monotonic()
                return
            if time.monotonic() > deadline:
                raise self._failure(f"does not answer after {READY_TIMEOUT_SECONDS:.0f} s")
            await asyncio.sleep(READY_POLL_SECONDS)
        raise self._failure(f"died while starting ({_cause(process.returncode)})")

    async def keep_running(self) -> None:
        """Start the part again whenever it dies.

        Raises:
            DevError: it died too often for another start to help.
        """
        deaths: list[float] = []
        while True:
            cause = await self._wait_for_death()
            now = time.monotonic()
            # Whoever kills a part that served well does not make it a part that cannot live.
            early = self._ready_at is None or now - self._ready_at < STEADY_SECONDS
            deaths = [at for at in deaths if early and now - at < DEATHS_WINDOW_SECONDS] + [now]
            if len(deaths) >= DEATHS_ALLOWED:
                window = f"{DEATHS_ALLOWED} times within {DEATHS_WINDOW_SECONDS:.0f} s"
                raise self._failure(f"died {window} ({cause})")
            delay = 2 ** (len(deaths) - 2) if len(deaths) > 1 else 0
            say(
                f"{self.part.name} died ({cause}); "
                f"starting it again {f'in {delay} s' if delay else 'at once'}"
            )
            await asyncio.sleep(delay)
            await self._start_again()

    async def echo_warnings(self) -> None:
        """Copy what the part logs as a warning or worse to the console; the file has everything."""
        while True:
            await asyncio.sleep(ECHO_SECONDS)
            for line in self._new_lines():
                if WORTH_SHOWING.search(line):
                    say(f"{self.part.name} | {line.decode(errors='replace')}")

    async def stop(self, hurry: asyncio.Event) -> None:
        """Stop the process within its grace, and leave nothing of its session behind."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            self.process.terminate()
        if not await _ended(self.process, self.part.grace_seconds, hurry):
            grace = "" if hurry.is_set() else f" did not stop within {self.part.grace_seconds:g} s"
            say(f"{self.part.name}{grace}: killed")
        kill_group(self.process.pid)
        await self.process.wait()
        self._changed()

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self.part.log.open("ab") as log:
            self._born_at = log.tell()
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *self.part.command,
                    cwd=self.part.cwd,
                    env=self.part.env,
                    stdin=subprocess.DEVNULL,
                    # A file and no pipe: output cannot block or break when dev.py is gone.
                    stdout=log,
                    stderr=log,
                    # Its own session: Ctrl-C reaches only dev.py, which stops the parts in order.
                    start_new_session=True,
                )
            except OSError as error:
                raise self._failure(f"cannot be started ({error})") from error
        self._changed()
        return self.process

    async def _wait_for_death(self) -> str:
        assert self.process is not None  # noqa: S101 - start() came first
        cause = _cause(await self.process.wait())
        kill_group(self.process.pid)
        self._changed()
        return cause

    async def _start_again(self) -> None:
        try:
            await self.start()
        except DevError as error:
            # One more death, which keep_running() counts.
            say(str(error))
            if self.process is not None:
                kill_group(self.process.pid)
        else:
            say(f"{self.part.name} runs again")

    def _failure(self, what: str) -> DevError:
        last = self._read_log(self._born_at).decode(errors="replace").rstrip().splitlines()[-5:]
        quoted = "".join(f"\n  | {line}" for line in last)
        return DevError(f"{self.part.name} {what}; its log is {self.part.log}{quoted}")

    def _new_lines(self) -> list[bytes]:
        self._echoed = max(self._echoed, _size(self.part.log) - LARGEST_ECHO)
        complete, newline, _ = self._read_log(self._echoed).rpartition(b"\n")
        self._echoed += len(complete + newline)
        return complete.splitlines()

    def _read_log(self, offset: int) -> bytes:
        with self.part.log.open("rb") as log:
            log.seek(offset)
            return log.read()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _cause(exit_code: int) -> str:
    return f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


async def _ended(
    process: asyncio.subprocess.Process, grace_seconds: float, hurry: asyncio.Event
) -> bool:
    """Wait for the end of the process, but no longer than its grace or the user's patience."""
    waits = {asyncio.create_task(process.wait()), asyncio.create_task(hurry.wait())}
    _, pending = await asyncio.wait(
        waits, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED
    )
    for task in pending:
        task.cancel()
    return process.returncode is not None
