"""What /proc says about processes, and waiting for a condition.

Whatever is read here may be gone between being listed and being looked at.
"""

import asyncio
import os
import signal
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


def open_files_of(pid: int) -> list[str]:
    """What the descriptors of a process stand for, without those that close meanwhile."""
    return [name for entry in Path(f"/proc/{pid}/fd").iterdir() if (name := _target(entry))]


def command_of(pid: int) -> str:
    """Its command line, empty once it has ended."""
    return _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")


def freeze(pid: int, seconds: float = 20) -> None:
    """Stop a process, and return once it stands still.

    The signal is only sent by the time that `kill` returns: threads that are running go on until
    the kernel gets to them, and a server may answer once more.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + seconds
    while not all(_thread_state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, "the process did not stand still in time"
        time.sleep(0.001)


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Return once the condition holds; fail if it doesn't in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


def _stat(pid: int) -> tuple[str, int]:
    text = _read(Path(f"/proc/{pid}/stat"))
    if not text:
        return "", 0
    state, parent = text.rpartition(")")[2].split()[:2]
    return state, int(parent)


def _thread_state(task: Path) -> str:
    """One that has ended since it was listed stands still, too."""
    return (_read(task / "stat").rpartition(")")[2].split() or ["T"])[0]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""
