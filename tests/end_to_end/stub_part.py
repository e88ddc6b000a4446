"""Stands in for the worker or the API: answers /readyz and notes how it was asked to stop.

Usage: stub_part.py NAME PORT_VARIABLE NOTES [stubborn | fragile]
"""

import http.server
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType

NAME, PORT_VARIABLE, NOTES, *TEMPER = sys.argv[1:]


class Ready(http.server.BaseHTTPRequestHandler):
    """200 to everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if "fragile" in TEMPER:
            threading.Timer(0.2, os.abort).start()


def note_and_leave(number: int, _frame: FrameType | None) -> None:
    """Append one line: who, which signal, whether the server still answered."""
    host, port = os.environ["TEMPORAL_ADDRESS"].split(":")
    with socket.socket() as probe:
        server = "up" if probe.connect_ex((host, int(port))) == 0 else "down"
    with Path(NOTES).open("a") as notes:
        notes.write(f"{NAME} {signal.Signals(number).name} server {server}\n")
    if "stubborn" not in TEMPER:
        time.sleep(0.1)
        os._exit(0)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, note_and_leave)
    sys.stderr.write(f"WARNING {NAME} is a stub\n")
    address = ("127.0.0.1", int(os.environ[PORT_VARIABLE]))
    http.server.ThreadingHTTPServer(address, Ready).serve_forever()


if __name__ == "__main__":
    main()
