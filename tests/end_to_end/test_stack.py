"""`make run` as a whole, from outside: HTTP, signals to processes, and the temporal CLI."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.end_to_end.stack import Stack, running, wait_until

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

SMALL = {"prompt": "a lighthouse", "width": 256, "height": 256, "num_inference_steps": 20}
LONG = {"prompt": "a lighthouse", "width": 1024, "height": 1024, "num_inference_steps": 150}
CHINESE = "夜晚的海边城市，樱花飘落 🌸🌙"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One running stack for the tests that leave it whole."""
    with running(Stack(tmp_path_factory.mktemp("stack") / "data")) as started:
        started.wait_until_ready()
        yield started
        assert started.stop() == 0
    assert started.pids() == []


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[httpx.Client]:
    """A client of that stack."""
    with httpx.Client(base_url=stack.api_url, timeout=70) as client:
        yield client


def submit(api: httpx.Client, **fields: Any) -> str:
    """Start a job; its id."""
    answer = api.post("/v1/jobs", json=fields)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["id"]
    return job_id


def read(api: httpx.Client, job_id: str, wait: int = 0) -> dict[str, Any]:
    """The job now, or after a change."""
    answer = api.get(f"/v1/jobs/{job_id}", params={"wait": wait} if wait else {})
    assert answer.status_code == 200, answer.text
    job: dict[str, Any] = answer.json()
    return job


def finish(api: httpx.Client, job_id: str) -> dict[str, Any]:
    """The job once it is final."""
    while not (job := read(api, job_id, wait=60))["done"]:
        pass
    return job


def until_step(api: httpx.Client, job_id: str, step: int) -> dict[str, Any]:
    """The job once it has computed so many steps."""
    wait_until(
        f"step {step} of {job_id}",
        lambda: (read(api, job_id)["progress"] or {"step": 0})["step"] >= step,
        timeout=60,
    )
    return read(api, job_id)


def temporal(stack: Stack, *arguments: str) -> str:
    """Run the temporal CLI against the stack's server."""
    program = str(Path(sys.executable).with_name("temporal"))
    command = (program, *arguments, "--address", stack.temporal_address)
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def kill(stack: Stack, program: str) -> None:
    """Kill every process of the stack that has this in its command line."""
    for pid in stack.pids(program):
        os.kill(pid, signal.SIGKILL)


def events_of(job: dict[str, Any]) -> list[str]:
    """The job's story in short."""
    return [transition["event"] for transition in job["transitions"]]


def test_a_chinese_prompt_with_emoji_becomes_the_picture_that_the_job_names(
    api: httpx.Client,
) -> None:
    job_id = submit(api, prompt=CHINESE, width=1024, height=1024, num_inference_steps=30)
    seen: list[tuple[str, int]] = []
    while not seen or seen[-1][0] not in ("SUCCESS", "FAILED"):
        job = read(api, job_id)
        seen.append((job["state"], (job["progress"] or {"percent": 0})["percent"]))
    states = list(dict.fromkeys(state for state, _ in seen))
    assert states[-2:] == ["PROCESSING", "SUCCESS"]
    percents = [percent for _, percent in seen]
    assert percents == sorted(percents)
    assert [state for state, percent in seen if percent == 100] == ["SUCCESS"]
    data = api.get(f"/v1/jobs/{job_id}/image").content
    assert hashlib.sha256(data).hexdigest() == job["result"]["sha256"]
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.size) == ("PNG", (1024, 1024))
    assert job["request"]["prompt"] == CHINESE


def test_the_same_seed_gives_the_same_bytes(api: httpx.Client) -> None:
    first = finish(api, submit(api, **SMALL))
    again = finish(api, submit(api, **SMALL, seed=first["result"]["seed"]))
    other = finish(api, submit(api, **SMALL, seed=first["result"]["seed"] + 1))
    assert first["result"]["sha256"] == again["result"]["sha256"] != other["result"]["sha256"]


def test_a_cancelled_engine_stops_and_leaves_no_temporary_file(
    stack: Stack, api: httpx.Client
) -> None:
    job_id = submit(api, **LONG)
    until_step(api, job_id, 3)
    scratch = stack.data_dir / "tmp"
    assert list(scratch.glob(f"*/{job_id}-*"))
    answer = api.post(f"/v1/jobs/{job_id}/cancel", json={"message": "changed my mind"})
    assert (answer.status_code, answer.json()["state"]) == (200, "CANCELLED")
    wait_until("the engine has stopped", lambda: not list(scratch.glob(f"*/{job_id}-*")))
    assert api.post(f"/v1/jobs/{job_id}/cancel").json() == answer.json()
    # The slots are free: both of them serve again.
    jobs = [submit(api, **SMALL) for _ in range(3)]
    assert {finish(api, job)["state"] for job in jobs} == {"SUCCESS"}


def test_a_paused_job_goes_on_in_a_restarted_worker_to_the_same_bytes(
    stack: Stack, api: httpx.Client
) -> None:
    job_id = submit(api, **LONG, seed=5)
    until_step(api, job_id, 5)
    assert api.post(f"/v1/jobs/{job_id}/pause", json={"message": "lunch"}).status_code == 200
    [worker] = stack.pids("worker.py")
    os.kill(worker, signal.SIGTERM)
    wait_until("another worker", lambda: stack.pids("worker.py") not in ([worker], []))
    assert read(api, job_id)["state"] == "PAUSED"
    # 202 while the new worker is still starting.
    assert api.post(f"/v1/jobs/{job_id}/resume").status_code in (200, 202)
    job = finish(api, job_id)
    assert events_of(job) == ["START", "PAUSE", "RESUME", "START", "COMPLETE"]
    pause = job["transitions"][1]
    assert (pause["source"], pause["message"]) == ("api:default", "lunch")
    undisturbed = finish(api, submit(api, **LONG, seed=5))
    assert job["result"]["sha256"] == undisturbed["result"]["sha256"]


def test_the_cli_controls_a_job_and_the_api_shows_it(stack: Stack, api: httpx.Client) -> None:
    job_id = submit(api, **LONG)
    until_step(api, job_id, 1)
    workflow = ("--workflow-id", f"job-{job_id}")
    temporal(stack, "workflow", "signal", *workflow, "--name", "pause")
    wait_until("paused", lambda: read(api, job_id)["state"] == "PAUSED")
    temporal(stack, "workflow", "signal", *workflow, "--name", "resume")
    wait_until("resumed", lambda: read(api, job_id)["state"] == "PROCESSING")
    view = temporal(stack, "workflow", "query", *workflow, "--type", "view", "-o", "json")
    assert json.loads(view)["queryResult"][0]["state"] == "PROCESSING"
    reason = ("--reason", "stuck in a bad build")
    temporal(stack, "workflow", "terminate", *workflow, *reason)
    job = read(api, job_id)
    assert job["state"] == "FAILED"
    assert job["error"]["message"] == "terminated by an operator: stuck in a bad build"
    assert api.post(f"/v1/jobs/{job_id}/pause").status_code == 409


def test_twenty_jobs_survive_the_death_of_everything(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "data")
    with running(stack):
        stack.wait_until_ready()
        with httpx.Client(base_url=stack.api_url, timeout=70) as api:
            jobs = [submit(api, **SMALL) for _ in range(20)]
            kill(stack, "-m api")
            wait_until("the API is back", lambda: _answers(api))
            kill(stack, "temporal server")
            wait_until("Temporal is back", lambda: _answers(api), timeout=40)
            read(api, jobs[-1])
        for program in ("dev.py", "temporal server", "worker.py", "-m api"):
            kill(stack, program)
        stack.process.wait(10)
        wait_until("all are gone", lambda: stack.pids() == [], timeout=60)
    again = Stack(
        stack.data_dir,
        temporal_port=stack.temporal_port,
        ui_port=stack.ui_port,
        api_port=stack.api_port,
    )
    with running(again):
        again.wait_until_ready()
        with httpx.Client(base_url=again.api_url, timeout=70) as api:
            assert {finish(api, job)["state"] for job in jobs} == {"SUCCESS"}
        assert again.stop() == 0


def _answers(api: httpx.Client) -> bool:
    try:
        return api.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False
