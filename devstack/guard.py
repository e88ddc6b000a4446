"""Stops the parts of `make run` in order when dev.py itself was killed: a small program of its own.

Standard input brings one line per change: the parts that run now, in the order in which they stop,
as `pid:grace_seconds ...`. The pipe closes when dev.py ends, however it ended, and whatever the
last line still names is stopped then. Nothing but the standard library, so that it starts at once.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 0.05


def is_running(pid: int) -> bool:
    """Whether the process can still do anything: a zombie that nobody reaps counts as gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is there, only not ours
        return True
    return _state(pid) != "Z"


def kill_group(pid: int) -> None:
    """Kill what is left of the session that this process led, such as its engine's children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def stop(pid: int, grace_seconds: float) -> None:
    """Ask one part to stop, wait, and end what is still there after the grace."""
    deadline = time.monotonic() + grace_seconds
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    kill_group(pid)


def main() -> None:
    """Listen until the pipe closes, then stop the parts of the last complete line."""
    running = ""
    for line in sys.stdin:
        # A line that was cut off by the death of its writer must not name a wrong process.
        running = line if line.endswith("\n") else running
    for entry in running.split():
        pid, grace = entry.split(":")
        stop(int(pid), float(grace))


def _state(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:  # no /proc on this system, or just gone: the next look will tell
        return "?"
    return stat.rpartition(")")[2].split()[0]


if __name__ == "__main__":
    main()
