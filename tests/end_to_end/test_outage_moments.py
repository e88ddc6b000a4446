"""Temporal goes away while jobs are at different moments of their lives; each goes on by itself."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from activities.models import GenerationParameters
from tests.end_to_end.gated_jobs import GATED_ENGINE, PICTURE, GatedJobs, Job
from tests.end_to_end.stack import Stack, is_listening, running, wait_until
from tests.end_to_end.undisturbed import undisturbed_sha256
from tests.end_to_end.watched_engines import GatedEngine
from tests.processes import freeze

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

# Longer than a heartbeat timeout, and than the silence by which an outage is known.
OUTAGE_SECONDS = 9.0
SETTINGS = {
    "DARKROOM_ENGINES": GATED_ENGINE,
    # As many as there are jobs at work when the outage comes, so that one more has to wait.
    "DARKROOM_GENERATE_SLOTS": "3",
}
STEPS = 4


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack of this test's own."""
    with running(Stack(tmp_path / "data", extra=SETTINGS)) as started:
        started.wait_until_ready()
        yield started
        assert started.stop() == 0
    assert started.pids() == []


@pytest.fixture
def jobs(stack: Stack, tmp_path: Path) -> Iterator[GatedJobs]:
    """No job yet, on that stack."""
    with httpx.Client(base_url=stack.api_url, timeout=30) as api:
        yield GatedJobs(api, tmp_path)


@contextmanager
def frozen(stack: Stack) -> Iterator[None]:
    """The server takes calls, and answers none."""
    [server] = stack.pids("temporal server")
    freeze(server)
    yield
    os.kill(server, signal.SIGCONT)


@contextmanager
def killed(stack: Stack) -> Iterator[None]:
    """The server is gone, and dev.py, which would start it again at once, stands still."""
    [server] = stack.pids("temporal server")
    freeze(stack.process.pid)
    os.kill(server, signal.SIGKILL)
    wait_until("its port is closed", lambda: not is_listening(stack.temporal_port))
    yield
    stack.process.send_signal(signal.SIGCONT)


Outage = Callable[[Stack], AbstractContextManager[None]]


def bring_to_their_moments(jobs: GatedJobs) -> None:
    """One job is paused; three hold all slots, so that the last one waits in the queue."""
    jobs.submit("paused", STEPS, gate_after=1)
    jobs.until("paused", "PROCESSING", step=1)
    jobs.ask("paused", "pause")
    jobs.open_gate("paused")
    jobs.until("paused", "PAUSED")
    # Goes on through the whole outage, and writes checkpoints by the clock.
    jobs.submit("computing", steps=30, step_seconds=0.5)
    jobs.submit("pausing", STEPS, gate_after=2)
    jobs.submit("completing", STEPS, gate_after=STEPS)
    jobs.until("computing", "PROCESSING", step=1)
    jobs.until("completing", "PROCESSING", step=STEPS)
    jobs.until("pausing", "PROCESSING", step=2)
    jobs.submit("queued", STEPS)
    jobs.ask("pausing", "pause")
    wait_until("it is heard", lambda: jobs.read("pausing")["pending_request"] == "pause")
    assert jobs.read("queued")["state"] == "PENDING"


def sit_out(jobs: GatedJobs) -> None:
    """A checkpoint and an image are made while nobody can be told."""
    began = time.monotonic()
    jobs.open_gate("pausing")
    jobs.open_gate("completing")
    answer = jobs.api.get("/v1/jobs/any")
    assert (answer.status_code, answer.json()["code"]) == (503, "TEMPORAL_UNAVAILABLE")
    assert int(answer.headers["Retry-After"]) > 0
    wait_until("it was away for long", lambda: time.monotonic() - began > OUTAGE_SECONDS)


def assert_unharmed(job: Job) -> None:
    """The outage may have ended an attempt, which then says so and does not count.

    A worker that can't be heard for another four seconds once Temporal is back counts as lost.
    """
    losses = [t["message"] for t in job["transitions"] if t["event"] == "RETRY"]
    counted = [loss for loss in losses if "no heartbeat for" in loss]
    free = [loss for loss in losses if "Temporal was out of reach" in loss]
    assert len(counted) + len(free) == len(losses), losses
    assert (job["state"], job["attempt"]) == ("SUCCESS", 1 + len(counted)), losses
    assert job["result"]["sha256"] == undisturbed(job["request"]["num_inference_steps"])


def undisturbed(steps: int) -> str:
    """The hash of the image that nothing came between."""
    parameters = GenerationParameters(**PICTURE, num_inference_steps=steps)
    return undisturbed_sha256(GatedEngine(), "gated", parameters)


@pytest.mark.parametrize("outage", [frozen, killed])
def test_an_outage_ends_no_job_at_whatever_moment_it_comes(
    stack: Stack, jobs: GatedJobs, outage: Outage
) -> None:
    bring_to_their_moments(jobs)
    served_by = stack.pids("worker.py"), stack.pids("-m api")
    paused = jobs.read("paused")
    with outage(stack):
        sit_out(jobs)
    names = ("computing", "completing", "queued")
    ended = [jobs.until(name, "SUCCESS") for name in names]
    assert jobs.read("paused")["transitions"] == paused["transitions"]
    for name in ("paused", "pausing"):
        jobs.until(name, "PAUSED")
        jobs.ask(name, "resume")
        ended.append(jobs.until(name, "SUCCESS"))
    for job in ended:
        assert_unharmed(job)
    assert (stack.pids("worker.py"), stack.pids("-m api")) == served_by
