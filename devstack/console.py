"""How `make run` talks to people: one line at a time, and never a traceback."""

import os
import sys


class DevError(Exception):
    """What ends `make run`, told in a line for people."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def say(text: str) -> None:
    """Print a line at once, for a terminal and for a pipe alike."""
    try:
        print(text, flush=True)  # noqa: T201 - this is the console
    except OSError:
        # Who read our lines has gone (closed terminal, `| head`), and the stop must go on.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
