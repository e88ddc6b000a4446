"""Folders for temporary files, gone with the attempt, or with the next start after a crash."""

import asyncio
import fcntl
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from activities.errors import ErrorKind, WorkError
from activities.threads import DaemonThreads

# An engine may leave a million files, and a disk may hang: each of these holds up its own job.
_CALLS_AT_A_TIME = 16
# A removal that takes longer goes on by itself; its job doesn't wait for it.
_LONGEST_REMOVAL_SECONDS = 5.0


class Scratch:
    """This process's own part of the scratch folder.

    The lock on it ends with the process, however that ends: by it the next process tells a dead
    owner's leftovers from a living one's files. What is done with an attempt's files is done in
    threads: a loop that waits for a disk sends no heartbeats, and loses every job of its worker.
    """

    def __init__(self, root: Path, limit_seconds: float = 60) -> None:
        """No call for a folder or a file takes longer than the limit."""
        self._limit_seconds = limit_seconds
        self._threads = DaemonThreads(_CALLS_AT_A_TIME)
        self._removals: set[asyncio.Task[None]] = set()
        root.mkdir(parents=True, exist_ok=True)
        self._own = root / f"worker-{os.getpid()}-{secrets.token_hex(4)}"
        # One start at a time, or another one could sweep this folder before it is locked.
        with _locked(root / ".lock"):
            self._own.mkdir()
            self._lock = os.open(self._own, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            dead = _without_owner(root, besides=self._own)
        # Nobody else waits for this, however much it is.
        for folder in dead:
            shutil.rmtree(folder, ignore_errors=True)

    @asynccontextmanager
    async def folder(self, name: str) -> AsyncIterator[Path]:
        """An empty folder, removed with all that is in it; raises `WorkError`."""
        path = self._own / f"{name}-{secrets.token_hex(4)}"
        try:
            await self._call(path.mkdir)
            yield path
        finally:
            await self._remove(path)

    async def write(self, path: Path, data: bytes) -> None:
        """Write a temporary file; raises `WorkError`."""
        await self._call(lambda: path.write_bytes(data))

    async def _call(self, act: Callable[[], object]) -> None:
        try:
            async with asyncio.timeout(self._limit_seconds):
                await self._threads.run(act)
        except TimeoutError as error:
            message = f"the folder for temporary files did not answer for {self._limit_seconds:g} s"
            raise WorkError(ErrorKind.STORAGE, message) from error
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "unknown reason"
            message = f"the folder for temporary files could not be written: {reason}"
            raise WorkError(ErrorKind.STORAGE, message) from error

    async def _remove(self, path: Path) -> None:
        """Remove a folder, even if nobody waits for it any longer."""
        removal = asyncio.create_task(
            self._threads.run(lambda: shutil.rmtree(path, ignore_errors=True))
        )
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
        await asyncio.wait([removal], timeout=_LONGEST_REMOVAL_SECONDS)

    def close(self) -> None:
        """Remove everything of this process."""
        shutil.rmtree(self._own, ignore_errors=True)
        os.close(self._lock)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _without_owner(root: Path, besides: Path) -> list[Path]:
    folders = root.glob("worker-*")
    return [folder for folder in folders if folder != besides and not _is_locked(folder)]


def _is_locked(folder: Path) -> bool:
    # Another process may sweep, or end, at the same time: what is gone needs no sweeping.
    with suppress(FileNotFoundError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
    return False
