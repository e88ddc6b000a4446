"""What /proc says about processes, and waiting for a condition."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    return _stat(pid)[0] not in ("", "Z")


def children_of(pid: int) -> list[int]:
    """The living children of a process."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [child for child in pids if _stat(child)[1] == pid and is_running(child)]


def descendants_of(pid: int) -> list[int]:
    """Its children, their children, and so on."""
    found = children_of(pid)
    return found + [pid for child in found for pid in descendants_of(child)]


def zombies_of(pid: int) -> list[int]:
    """The children that ended and were never asked how."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return [child for child in pids if _stat(child) == ("Z", pid)]


def open_files() -> int:
    """How many files, pipes and sockets this process holds."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Return once the condition holds; fail if it doesn't in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


def _stat(pid: int) -> tuple[str, int]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    state, parent = text.rpartition(")")[2].split()[:2]
    return state, int(parent)
