"""`python -m api` as a process: how it starts, what it says, and how it ends."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from tests.end_to_end.api_process import address, one_line, run, serving
from tests.end_to_end.stack import free_port, wait_until
from tests.processes import open_files_of


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_process_serves_and_ends_with_zero(
    tmp_path: Path, client: Client, number: signal.Signals
) -> None:
    with serving(tmp_path, TEMPORAL_ADDRESS=address(client)) as (process, port):
        assert httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=10).status_code == 200
        process.send_signal(number)
        output, _ = process.communicate(timeout=10)
        assert process.returncode == 0
        assert "Traceback" not in output


def test_process_starts_before_temporal_does(tmp_path: Path) -> None:
    with serving(tmp_path, TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}") as (process, port):
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=10).status_code == 200
        refused = httpx.post(f"http://127.0.0.1:{port}/v1/jobs", json={"prompt": "a"}, timeout=10)
        assert refused.status_code == 503
        assert refused.json()["code"] == "TEMPORAL_UNAVAILABLE"
        process.terminate()
        output, _ = process.communicate(timeout=10)
        assert process.returncode == 0
        assert "Traceback" not in output


def test_only_this_machine_is_served_unless_told_otherwise(tmp_path: Path, client: Client) -> None:
    with serving(tmp_path, TEMPORAL_ADDRESS=address(client)) as (process, port):
        assert _listeners(process.pid) == {f"0100007F:{port:04X}"}


def test_waiting_client_is_answered_when_the_process_ends(tmp_path: Path, client: Client) -> None:
    with (
        serving(tmp_path, TEMPORAL_ADDRESS=address(client)) as (process, port),
        ThreadPoolExecutor() as pool,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as api,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as waiter,
    ):
        job = api.post("/v1/jobs", json={"prompt": "a", "start_at": _tomorrow()}).json()
        waiting = pool.submit(waiter.get, f"/v1/jobs/{job['id']}?wait=60")
        wait_until("it is connected", lambda: _connections(process.pid, port) >= 2)
        # Both are served by one loop: what came before this is being worked on.
        assert api.get("/readyz").status_code == 200
        assert not waiting.done()
        process.terminate()
        begun = time.monotonic()
        answer = waiting.result(timeout=20)
        output, _ = process.communicate(timeout=20)
        assert time.monotonic() - begun < 8
        assert process.returncode == 0
        assert answer.status_code == 200
        assert answer.json()["state"] == "PENDING"
        assert "Traceback" not in output


def test_store_that_hangs_does_not_hold_the_end_of_the_process(
    tmp_path: Path, client: Client
) -> None:
    job_id = "0" * 32
    archived = tmp_path / "data/artifacts/jobs" / job_id / "job.json"
    archived.parent.mkdir(parents=True)
    # Whoever reads it waits for a writer that never comes, as on a server that went away.
    os.mkfifo(archived)
    with serving(tmp_path, TEMPORAL_ADDRESS=address(client)) as (process, port):
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/jobs/{job_id}", timeout=60)
        assert answer.status_code == 503
        assert httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=10).status_code == 200
        process.terminate()
        output, _ = process.communicate(timeout=10)
        assert process.returncode == 0
        assert "Traceback" not in output


def test_requests_that_do_not_arrive_are_given_up(tmp_path: Path) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with (
        serving(tmp_path, TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}") as (process, port),
        ExitStack() as stack,
    ):
        begun = time.monotonic()
        slow = []
        for sent in (b"", b"GET /healthz HT", whole[:-2], whole + whole[:-2]):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(sent)
            slow.append(client)
        dripping = slow[2]
        while time.monotonic() - begun < 15:
            dripping.sendall(b"X-More: x\r\n")
            assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=10).status_code == 200
            time.sleep(0.5)
        wait_until("the slow ones are gone", lambda: _connections(process.pid, port) == 0)
        assert 19 < time.monotonic() - begun < 30


def test_taken_port_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run(tmp_path, DARKROOM_API_PORT=port)
    assert ended.returncode not in {0, 2}
    assert port in one_line(ended.stderr)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DARKROOM_API_PORT", "eighty"),
        ("DARKROOM_API_PORT", "70000"),
        ("DARKROOM_STORE_URL", "ftp://pictures.example"),
        ("DARKROOM_PUBLIC_URL", "javascript:alert(1)"),
        ("TEMPORAL_PROFILE", "no-such-profile"),
    ],
)
def test_unusable_setting_is_told_in_one_line(tmp_path: Path, name: str, value: str) -> None:
    ended = run(tmp_path, **{name: value})
    assert ended.returncode == 2
    assert one_line(ended.stderr).startswith("api: ")
    assert name.partition("_")[0] in ended.stderr


def test_host_that_is_not_here_is_told_in_one_line(tmp_path: Path) -> None:
    ended = run(tmp_path, DARKROOM_API_HOST="203.0.113.7", DARKROOM_API_PORT=str(free_port()))
    assert ended.returncode not in {0, 2}
    assert "203.0.113.7" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def _tomorrow() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86_400))


def _listeners(pid: int) -> set[str]:
    """Local addresses, in the kernel's notation, on which a process listens."""
    return {line[1] for line in _sockets(pid) if line[3] == "0A"}


def _connections(pid: int, port: int) -> int:
    """Connections that are open at a port."""
    open_here = [line for line in _sockets(pid) if line[3] == "01"]
    return sum(line[1].endswith(f":{port:04X}") for line in open_here)


def _sockets(pid: int) -> list[list[str]]:
    inodes = {name[8:-1] for name in open_files_of(pid) if name.startswith("socket:[")}
    tables = [Path(f"/proc/{pid}/net/{table}").read_text() for table in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()[1:]]
    return [line for line in lines if line[9] in inodes]
