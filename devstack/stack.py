"""The parts together: started first to last, stopped last to first, whatever ends them."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from devstack import guard
from devstack.console import say
from devstack.parts import Part, RunningPart

# Ctrl-C pressed once can arrive twice, from the terminal and from a wrapper such as timeout(1).
SAME_PRESS_SECONDS = 0.5


class StopRequest:
    """The wish to stop: the first signal asks for order, a second Ctrl-C for haste."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.hurry = asyncio.Event()
        self._first = 0.0

    def listen(self) -> None:
        """Take over the signals; SIGHUP is a terminal that was closed."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._request)
        loop.add_signal_handler(signal.SIGHUP, self._request)

    def _request(self) -> None:
        if not self.requested.is_set():
            self._first = time.monotonic()
            say("stopping in order; press Ctrl-C again to kill everything at once")
            self.requested.set()

    def _interrupt(self) -> None:
        if self.requested.is_set() and time.monotonic() - self._first > SAME_PRESS_SECONDS:
            self.hurry.set()
        self._request()


class Guard:
    """The process that outlives a killed dev.py by just as long as an orderly stop takes.

    It shares the lock of the data folder, so that the next run waits until nothing is left.
    """

    def __init__(self, lock: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-S", guard.__file__],  # -S: up in 20 ms without site-packages
            stdin=subprocess.PIPE,
            # Not ours: who reads the lines of a killed dev.py gets the end of file at once.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            start_new_session=True,
        )

    def watch(self, parts: Sequence[RunningPart]) -> None:
        """Name the processes that must not outlive dev.py, in the order in which they stop."""
        entries = [f"{part.pid}:{part.part.grace_seconds}" for part in parts if part.pid]
        # A guard that somebody killed is missed only if dev.py is killed as well.
        with suppress(OSError):
            assert self._process.stdin is not None  # noqa: S101 - opened as a pipe above
            self._process.stdin.write((" ".join(entries) + "\n").encode())
            self._process.stdin.flush()

    def dismiss(self) -> None:
        """Let it end: it finds nothing to stop after the last line that it read."""
        self._process.communicate()


class Stack:
    """The server and its clients, the worker and the API."""

    def __init__(self, parts: Sequence[Part], watcher: Guard) -> None:
        self._guard = watcher
        self._parts = [RunningPart(part, self._tell_guard) for part in parts]

    async def run(self, stop: StopRequest, announce: Callable[[], None]) -> None:
        """Run until a stop is asked for; `announce` is called when all parts answer.

        Raises:
            DevError: a part did not start or died too often; the others are stopped all the same.
        """
        life = asyncio.create_task(self._live(announce))
        wish = asyncio.create_task(stop.requested.wait())
        await asyncio.wait({life, wish}, return_when=asyncio.FIRST_COMPLETED)
        for task in (life, wish):
            task.cancel()
        outcome, _ = await asyncio.gather(life, wish, return_exceptions=True)
        for part in reversed(self._parts):
            await part.stop(stop.hurry)
        if isinstance(outcome, Exception):
            raise _first_of(outcome)

    async def _live(self, announce: Callable[[], None]) -> None:
        server, *clients = self._parts
        async with asyncio.TaskGroup() as life:
            await server.start()
            life.create_task(server.keep_running())
            async with asyncio.TaskGroup() as starts:
                for part in clients:
                    starts.create_task(part.start())
            announce()
            for part in clients:
                life.create_task(part.keep_running())
                life.create_task(part.echo_warnings())

    def _tell_guard(self) -> None:
        self._guard.watch(list(reversed(self._parts)))


def _first_of(error: Exception) -> Exception:
    """The failure that ended the others, out of the groups that the task groups raise."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
