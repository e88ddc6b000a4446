"""Folders for temporary files, gone with the attempt, or with the next start after a crash."""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Scratch:
    """This process's own part of the scratch folder.

    The lock on it ends with the process, however that ends: by it the next process tells a dead
    owner's leftovers from a living one's files.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._own = root / f"worker-{os.getpid()}-{secrets.token_hex(4)}"
        # One start at a time, or another one could sweep this folder before it is locked.
        with _locked(root / ".lock"):
            self._own.mkdir()
            self._lock = os.open(self._own, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            _sweep(root, keep=self._own)

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """An empty folder, removed with all that is in it."""
        path = self._own / f"{name}-{secrets.token_hex(4)}"
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Remove everything of this process."""
        shutil.rmtree(self._own, ignore_errors=True)
        os.close(self._lock)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(root: Path, keep: Path) -> None:
    for folder in root.glob("worker-*"):
        if folder != keep and not _is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


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
