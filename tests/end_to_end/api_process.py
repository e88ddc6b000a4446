"""`python -m api` as a process of a test's own."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from temporalio.client import Client

from tests.end_to_end.stack import PROJECT, free_port, is_listening, wait_until

COMMAND = (sys.executable, "-m", "api")


def environ(tmp_path: Path, **settings: str) -> dict[str, str]:
    """The environment of a test, with nothing of ours but what is given."""
    ours = ("DARKROOM_", "TEMPORAL_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"DARKROOM_DATA_DIR": str(tmp_path / "data")} | settings


def run(
    tmp_path: Path, command: Sequence[str] = COMMAND, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run one that is to end by itself."""
    return subprocess.run(
        command,
        cwd=PROJECT,
        env=environ(tmp_path, **settings),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@contextmanager
def serving(
    tmp_path: Path, command: Sequence[str] = COMMAND, **settings: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """One that serves, and its port; it is gone afterwards."""
    port = free_port()
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env=environ(tmp_path, DARKROOM_API_PORT=str(port), **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until("it listens", lambda: is_listening(port) or process.poll() is not None)
        yield process, port
    finally:
        process.kill()
        process.communicate()


def address(client: Client) -> str:
    target: str = client.service_client.config.target_host
    return target


def one_line(text: str) -> str:
    """The only line that was said."""
    assert "Traceback" not in text
    [line] = text.splitlines()
    return line


def raw_status(port: int, authorization: bytes) -> int:
    """The status of an answer to a header that no well-behaved client sends."""
    head = b"GET /v1/jobs/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        # Who is refused early may find the connection closed while it still sends.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(head + b"Authorization: " + authorization + b"\r\n\r\n")
        with connection.makefile("rb") as answer:
            return int(answer.readline().split()[1])
