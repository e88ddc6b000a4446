"""`python -m api keys`, and what keys make of an API that runs."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from tests.end_to_end.api_process import COMMAND, address, one_line, raw_status, run, serving
from tests.end_to_end.stack import free_port, wait_until

EVERYWHERE = "0.0.0.0"  # noqa: S104


def keys(tmp_path: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run one of the commands."""
    return run(tmp_path, (*COMMAND, "keys", *arguments), **settings)


def added(tmp_path: Path, tenant: str, *options: str) -> str:
    """A new key, as a script would take it."""
    ended = keys(tmp_path, "add", tenant, *options)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(r"dk_[0-9a-f]{12}_[0-9a-f]{64}\n", ended.stdout)
    assert ended.stdout.strip() not in ended.stderr
    return ended.stdout.strip()


def test_keys_are_added_listed_and_revoked(tmp_path: Path) -> None:
    first = added(tmp_path, "anne", "--name", "web shop", "--expires-days", "90")
    second = added(tmp_path, "bob")
    first_id, second_id = first.split("_")[1], second.split("_")[1]
    ended = keys(tmp_path, "revoke", second_id)
    assert (ended.returncode, ended.stdout) == (0, f"Key {second_id} is revoked.\n")
    head, *rows = keys(tmp_path, "list").stdout.splitlines()
    assert head.split() == ["id", "state", "created", "expires", "tenant", "name"]
    assert len(rows) == 2
    assert rows[0].split()[:2] == [first_id, "active"]
    assert rows[0].endswith("  web shop")
    assert rows[1].split()[:2] == [second_id, "revoked"]
    assert rows[1].split()[3:] == ["never", "bob"]
    assert not any(text.rpartition("_")[2] in row for text in (first, second) for row in rows)


def test_keys_added_by_several_processes_at_once_are_all_there(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda n: added(tmp_path, f"tenant-{n}"), range(3)))
    listed = keys(tmp_path, "list").stdout
    assert all(text.split("_")[1] in listed for text in made)


def test_key_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    ended = keys(tmp_path, "revoke", "0" * 12)
    assert ended.returncode == 1
    assert "0" * 12 in one_line(ended.stderr)


def test_store_that_can_not_be_used_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    ended = keys(tmp_path, "add", "anne")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "store" in one_line(ended.stderr)


def test_api_without_keys_says_that_it_is_open_and_is_closed_by_the_first(
    tmp_path: Path, client: Client
) -> None:
    with serving(tmp_path, TEMPORAL_ADDRESS=address(client)) as (process, port):
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as api:
            assert api.get("/v1/jobs/x").status_code == 404
            text = added(tmp_path, "anne")
            wait_until("it is closed", lambda: api.get("/v1/jobs/x").status_code == 401)
            api.headers["authorization"] = f"Bearer {text}"
            assert api.get("/v1/jobs/x").status_code == 404
            assert keys(tmp_path, "revoke", text.split("_")[1]).returncode == 0
            wait_until("it is refused", lambda: api.get("/v1/jobs/x").status_code == 401)
        process.terminate()
        output, _ = process.communicate(timeout=10)
    [line] = [line for line in output.splitlines() if "API keys" in line]
    assert "127.0.0.1" in line
    assert "default" in line


def test_network_without_keys_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = {"DARKROOM_API_HOST": EVERYWHERE, "DARKROOM_API_PORT": str(free_port())}
    ended = run(tmp_path, **settings)
    assert ended.returncode == 2
    line = one_line(ended.stderr)
    for name in ("DARKROOM_API_HOST", "keys add", "DARKROOM_ALLOW_NO_KEYS"):
        assert name in line


@pytest.mark.parametrize("way", ["a key", "the setting"])
def test_network_is_served_with_keys_or_where_that_is_allowed(
    tmp_path: Path, client: Client, way: str
) -> None:
    settings = {"DARKROOM_API_HOST": EVERYWHERE, "TEMPORAL_ADDRESS": address(client)}
    if way == "a key":
        added(tmp_path, "anne")
    else:
        settings["DARKROOM_ALLOW_NO_KEYS"] = "on"
    with serving(tmp_path, **settings) as (_, port):
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/jobs/x", timeout=10)
        assert answer.status_code == (401 if way == "a key" else 404)


def test_hostile_headers_never_break_a_process(tmp_path: Path, client: Client) -> None:
    key = added(tmp_path, "anne").encode()
    hostile = [
        b"Bearer " + b"x" * 200_000,
        b"Bearer" + b" " * 20_000 + key,
        b"Bearer \xff\xfe\x80",
        b"Bearer\t" + key,
        b"\x00",
        b"Bearer " + key + b"\r\nAuthorization: Bearer " + key,
    ]
    with serving(tmp_path, TEMPORAL_ADDRESS=address(client)) as (process, port):
        for value in hostile:
            assert raw_status(port, value) in {400, 401, 431}, value[:40]
        assert raw_status(port, b"Bearer " + key) == 404
        process.terminate()
        output, _ = process.communicate(timeout=10)
    assert "Traceback" not in output
    assert key.decode() not in output
