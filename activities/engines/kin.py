"""What an engine has started, wherever that went: known by a mark in its environment.

A process may leave its group and its session, and it may outlive its parent, but the environment
that it was started with stays readable to whoever started it. One that an engine starts with an
environment of its own making isn't known. Linux only: elsewhere there is no /proc to look at.
"""

import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path

_VARIABLE = "DARKROOM_ENGINE_KIN"
# A process may be starting another one at this very moment.
_MOST_LOOKS = 20


def new_mark() -> str:
    """For one engine process and all that it will start."""
    return secrets.token_hex(16)


def marked(mark: str) -> dict[str, str]:
    """What to add to the environment of the process."""
    return {_VARIABLE: mark}


def kill_kin(mark: str) -> None:
    """End every process that has the mark, but not the one that calls this."""
    for _ in range(_MOST_LOOKS):
        found = [pid for pid in _pids() if pid != os.getpid() and _has(pid, mark)]
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def own_mark() -> str:
    """The mark of the process that calls this; empty where it was started without one."""
    return os.environ.get(_VARIABLE, "")


def _pids() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _has(pid: int, mark: str) -> bool:
    """A process that is gone, or somebody else's, has none; nor has a zombie."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{_VARIABLE}={mark}".encode() in environ.split(b"\0")
