"""Temporal or the store out of reach in the middle of jobs: all goes on by itself."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from activities.declarations import declaration_key
from tests.end_to_end.stack import Stack, running, wait_until
from tests.processes import freeze

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

JOB = {"prompt": "a lighthouse", "width": 512, "height": 512, "num_inference_steps": 150}
# Longer than a heartbeat timeout: the server finds every attempt lost when it goes on.
FROZEN_SECONDS = 8.0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack of this test's own."""
    with running(Stack(tmp_path / "data")) as started:
        started.wait_until_ready()
        # The last that the worker writes by itself: it would come back into a store that is gone.
        declared = started.data_dir / "artifacts" / declaration_key("procedural")
        wait_until("the engine is declared", declared.exists)
        yield started
        assert started.stop() == 0
    assert started.pids() == []


@pytest.fixture
def api(stack: Stack) -> Iterator[httpx.Client]:
    """A client of that stack."""
    with httpx.Client(base_url=stack.api_url, timeout=70) as client:
        yield client


def submit(api: httpx.Client, count: int) -> list[str]:
    """Start so many jobs, and wait until one of them runs."""
    jobs = [api.post("/v1/jobs", json=JOB | {"seed": n}).json()["id"] for n in range(count)]
    wait_until("one runs", lambda: state_of(api, jobs[0]) == "PROCESSING")
    return jobs


def state_of(api: httpx.Client, job_id: str, wait: int = 0) -> str:
    """The job's state."""
    state: str = api.get(f"/v1/jobs/{job_id}", params={"wait": wait}).json()["state"]
    return state


def until_success(api: httpx.Client, job_id: str) -> None:
    """Wait for the image."""
    wait_until(f"{job_id} is done", lambda: state_of(api, job_id) == "SUCCESS", timeout=90)


def test_a_frozen_temporal_server_is_told_as_503_and_costs_no_job(
    stack: Stack, api: httpx.Client
) -> None:
    jobs = submit(api, 4)
    [server] = stack.pids("temporal server")
    freeze(server)
    frozen_at = time.monotonic()
    answer = api.get(f"/v1/jobs/{jobs[0]}")
    assert (answer.status_code, answer.json()["code"]) == (503, "TEMPORAL_UNAVAILABLE")
    assert answer.headers["Retry-After"]
    wait_until("it was frozen for long", lambda: time.monotonic() - frozen_at > FROZEN_SECONDS)
    os.kill(server, signal.SIGCONT)
    wait_until("it answers", lambda: api.get("/readyz").status_code == 200)
    for job in jobs:
        until_success(api, job)


def test_a_store_that_is_out_of_reach_fails_attempts_with_storage_and_is_used_again(
    stack: Stack, api: httpx.Client
) -> None:
    artifacts = stack.data_dir / "artifacts"
    jobs = submit(api, 2)
    shutil.rmtree(artifacts)
    artifacts.write_text("not a folder")
    assert api.get("/readyz").status_code == 503

    def has_met_the_fault() -> bool:
        job = api.get(f"/v1/jobs/{jobs[0]}").json()
        return any(
            t["event"] == "RETRY" and "artifact store" in t["message"] for t in job["transitions"]
        )

    wait_until("an attempt has failed", has_met_the_fault, timeout=60)
    artifacts.unlink()
    for job in jobs:
        until_success(api, job)
        assert api.get(f"/v1/jobs/{job}/image").status_code == 200


def test_a_store_that_stays_out_of_reach_ends_jobs_with_storage(
    stack: Stack, api: httpx.Client
) -> None:
    artifacts = stack.data_dir / "artifacts"
    shutil.rmtree(artifacts, ignore_errors=True)
    artifacts.write_text("not a folder")
    small = JOB | {"width": 64, "height": 64, "num_inference_steps": 2, "max_attempts": 2}
    job = api.post("/v1/jobs", json=small).json()["id"]
    wait_until("it has failed", lambda: state_of(api, job) == "FAILED", timeout=60)
    error = api.get(f"/v1/jobs/{job}").json()["error"]
    assert error["kind"] == "STORAGE"
    assert str(stack.data_dir) not in error["message"]
    assert error["retryable"]
