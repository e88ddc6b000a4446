"""Callbacks of a whole `make run`, whose receiver is down at first, and whose worker is killed."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from tests.end_to_end.stack import Stack, free_port, running, wait_until

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

SMALL = {"prompt": "a lighthouse", "width": 64, "height": 64, "num_inference_steps": 2}


@dataclass
class Receiver:
    """What came, and the statuses to answer with: in turn, and 204 when there is none left."""

    statuses: list[int] = field(default_factory=list)
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def receiving(receiver: Receiver, port: int) -> Iterator[None]:
    """Serve on the port of this machine while inside."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def callbacks_of(api: httpx.Client, job_id: str) -> list[dict[str, Any]]:
    """The job's callbacks, as the API tells them."""
    told: list[dict[str, Any]] = api.get(f"/v1/jobs/{job_id}/callbacks").json()["callbacks"]
    return told


def has_failed(api: httpx.Client, job_id: str) -> bool:
    """Whether an attempt for the job's one callback has failed."""
    return any(one["attempts"] for one in callbacks_of(api, job_id))


def is_delivered(api: httpx.Client, job_id: str) -> bool:
    """Whether all of the job's callbacks have arrived."""
    states = {one["state"] for one in callbacks_of(api, job_id)}
    return states == {"DELIVERED"}


def test_callbacks_outlive_a_receiver_that_is_down_and_the_death_of_worker_and_api(
    tmp_path: Path,
) -> None:
    port, receiver = free_port(), Receiver(statuses=[503])
    private = {"DARKROOM_CALLBACK_PRIVATE_HOSTS": f"localhost:{port}"}
    stack = Stack(tmp_path / "data", extra=private)
    with running(stack), httpx.Client(base_url=stack.api_url, timeout=70) as api:
        stack.wait_until_ready()
        # Another port of the same host stays forbidden.
        refused = api.post("/v1/jobs", json=SMALL | {"callback_url": "http://localhost:9/"})
        assert refused.json()["errors"][0]["pointer"] == "#/callback_url"
        asked = SMALL | {"callback_url": f"http://localhost:{port}/hook"}
        jobs = [api.post("/v1/jobs", json=asked).json()["id"] for _ in range(4)]
        for job_id in jobs:
            while not api.get(f"/v1/jobs/{job_id}", params={"wait": 30}).json()["done"]:
                pass
            wait_until("a failed attempt", partial(has_failed, api, job_id))
        for program in ("worker.py", "-m api"):
            for pid in stack.pids(program):
                os.kill(pid, signal.SIGKILL)
        with receiving(receiver, port):
            wait_until("the API answers", lambda: is_up(stack), timeout=40)
            for job_id in jobs:
                wait_until("it arrived", partial(is_delivered, api, job_id), timeout=90)
        secret = api.get("/v1/callback-secret").json()["secret"]
        told = {job_id: callbacks_of(api, job_id) for job_id in jobs}
    for headers, body in receiver.got:
        event = Webhook(secret).verify(body, headers)
        assert [one["id"] for one in told[event["data"]["id"]]] == [headers["webhook-id"]]
        assert event["type"] == "job.success"
    assert {json.loads(body)["data"]["id"] for _, body in receiver.got} == set(jobs)
    for callbacks in told.values():
        [callback] = callbacks
        outcomes = [attempt["outcome"] for attempt in callback["attempts"]]
        assert outcomes[0] == "failed"
        assert outcomes[-1] == "delivered"


def is_up(stack: Stack) -> bool:
    """Whether the API answers."""
    try:
        return httpx.get(f"{stack.api_url}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
