"""What an engine's process does first: it stands back behind its worker, and ends with it."""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
from pathlib import Path

from activities.engines.kin import kill_kin, own_mark

_PR_SET_PDEATHSIG = 1
# The worker's heartbeats, cancels and claims go before one more step.
_NICENESS = 5
# Where memory runs out, the kernel ends this process, and the worker stays to tell of it.
_OOM_SCORE = "500"
# Where no limit is set: more files than a worker ever holds, and few enough to go through.
_MOST_FILES = 1024 * 1024


def leave_guard() -> None:
    """Fork a guard that ends this process and all that it started once the worker is gone.

    The worker may be killed by a signal that it can't act on, and the kernel's own way, below,
    doesn't reach what an engine has started. The guard holds nothing but standard input, whose
    other end is the worker's alone.
    """
    if os.getpgrp() != os.getpid() or os.fork() != 0:
        return
    os.closerange(1, _file_limit())
    hang_up = select.poll()
    hang_up.register(0, 0)
    hang_up.poll()
    # First whoever left the group; this process has the mark too, and goes with the group.
    if mark := own_mark():
        kill_kin(mark)
    os.killpg(0, signal.SIGKILL)


def _file_limit() -> int:
    """Above all numbers of open files. The worker's were given out under the same limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_FILES if soft == resource.RLIM_INFINITY else min(soft, _MOST_FILES)


def stand_back() -> None:
    """The worker goes before its engines, where processor time or memory is short."""
    os.nice(_NICENESS)
    if sys.platform == "linux":
        # Even while native code hangs.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
