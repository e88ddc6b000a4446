"""The clock of the worker and the API is set by an hour, while Temporal's goes right."""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.gated_jobs import GATED_ENGINE, GatedJobs, Job
from tests.end_to_end.shifted_clock import ShiftedClock, faketime_library
from tests.end_to_end.stack import Stack, free_port, running, wait_until
from tests.end_to_end.test_outage_moments import OUTAGE_SECONDS, frozen

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.skipif(sys.platform != "linux", reason="preloads a library"),
    pytest.mark.skipif(faketime_library() is None, reason="libfaketime is not installed"),
]

STEPS = 4
HOUR = timedelta(hours=1)


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    """Right until it is set."""
    library = faketime_library()
    assert library is not None
    clock = ShiftedClock(library, tmp_path / "clock")
    clock.shift(timedelta(0))
    return clock


@pytest.fixture
def stack(tmp_path: Path, clock: ShiftedClock) -> Iterator[Stack]:
    """A stack whose parts but Temporal run by that clock."""
    port = {"DARKROOM_HEALTH_PORT": str(free_port())}
    settings = {"DARKROOM_ENGINES": GATED_ENGINE, **port, **clock.environ}
    with running(Stack(tmp_path / "data", extra=settings)) as started:
        try:
            started.wait_until_ready()
            yield started
            assert started.stop() == 0
        finally:
            clock.clean_up(started.process.pid)
    assert started.pids() == []


@pytest.fixture
def jobs(stack: Stack, tmp_path: Path) -> Iterator[GatedJobs]:
    """No job yet, on that stack."""
    with httpx.Client(base_url=stack.api_url, timeout=30) as api:
        yield GatedJobs(api, tmp_path)


def set_clock(stack: Stack, clock: ShiftedClock, by: timedelta) -> None:
    """Shift it, and see that the API and the worker have noticed."""
    clock.shift(by)
    for port in (stack.api_port, stack.extra["DARKROOM_HEALTH_PORT"]):
        url = f"http://127.0.0.1:{port}/healthz"
        wait_until(f"{url} is off by {by}", partial(is_off, url, by))


def is_off(url: str, by: timedelta) -> bool:
    """Whether the clock of who answers there is ahead by so much, give or take a few minutes."""
    said = parsedate_to_datetime(httpx.get(url).headers["Date"])
    return abs(said - datetime.now(UTC) - by) < HOUR / 10


def at(text: str) -> datetime:
    """A time in an answer."""
    return datetime.fromisoformat(text)


def soon(seconds: float) -> dict[str, object]:
    """A request not to start before so many true seconds are over."""
    return {"start_at": (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()}


def assert_in_order(job: Job) -> None:
    """No time in the answer is before one that it follows."""
    story = [job["created_at"], *(t["at"] for t in job["transitions"])]
    assert story == sorted(story, key=at), job
    assert story[-1] == job["updated_at"] == job["finished_at"]
    assert at(job["created_at"]) <= at(job["started_at"]) <= at(job["finished_at"])


def assert_undisturbed(job: Job, *reasons: str) -> None:
    """It went straight to its image, and nobody took the clock for an outage or a limit.

    A machine with too much to do may lose a worker for good reason: Temporal's clock says so.
    """
    losses = [t["message"] for t in job["transitions"] if t["event"] == "RETRY"]
    counted = [loss for loss in losses if "no heartbeat for" in loss]
    free = [loss for loss in losses if any(reason in loss for reason in reasons)]
    assert len(counted) + len(free) == len(losses), job
    events = [t["event"] for t in job["transitions"]]
    assert events == [*["START", "RETRY"] * len(losses), "START", "COMPLETE"], job
    assert job["attempt"] == 1 + len(counted)
    assert_in_order(job)


@pytest.mark.parametrize("shift", [-HOUR, HOUR], ids=["back", "forward"])
def test_a_clock_that_is_set_by_an_hour_disturbs_no_job(
    stack: Stack, jobs: GatedJobs, clock: ShiftedClock, shift: timedelta
) -> None:
    """Shift the clock between jobs that are at work, planned and yet to come."""
    limit = {"timeout_seconds": 10}
    jobs.submit("planned before", STEPS, soon(12))
    jobs.submit("at work", STEPS, limit, gate_after=2)
    jobs.until("at work", "PROCESSING", step=2)
    set_clock(stack, clock, shift)
    jobs.submit("planned after", STEPS, soon(6))
    accepted = jobs.submit("begun after", STEPS)
    # Its time runs out while it stands at its gate, and it moved too recently to be stuck.
    wait_until("the watchdog looks", lambda: jobs.read("at work")["extensions"] != [], 30)
    jobs.open_gate("at work")
    for name in ("at work", "begun after", "planned before", "planned after"):
        job = jobs.until(name, "SUCCESS")
        assert_undisturbed(job)
        if start_at := job["request"]["start_at"]:
            assert at(job["started_at"]) >= at(start_at)
    assert jobs.read("begun after")["created_at"] == accepted["created_at"]
    extension = jobs.read("at work")["extensions"][0]
    assert at(extension["until"]) - at(extension["at"]) == timedelta(minutes=2)


@pytest.mark.parametrize("shift", [-HOUR, HOUR], ids=["back", "forward"])
def test_progress_is_told_by_a_time_within_the_job(
    stack: Stack, jobs: GatedJobs, clock: ShiftedClock, shift: timedelta
) -> None:
    jobs.submit("at work", STEPS, gate_after=2)
    before = jobs.until("at work", "PROCESSING", step=2)
    set_clock(stack, clock, shift)
    jobs.open_gate("at work")
    done = jobs.until("at work", "SUCCESS")
    assert at(before["progress"]["at"]) <= at(done["progress"]["at"]) <= at(done["finished_at"])


def test_a_worker_that_is_killed_after_its_clock_was_set_back_counts_as_lost(
    stack: Stack, jobs: GatedJobs, clock: ShiftedClock
) -> None:
    jobs.submit("at work", STEPS, gate_after=2)
    jobs.until("at work", "PROCESSING", step=2)
    set_clock(stack, clock, -HOUR)
    told = time.monotonic()
    wait_until("it has been heard since", lambda: time.monotonic() - told > 2)
    [killed] = stack.pids("worker.py")
    os.kill(killed, signal.SIGKILL)
    jobs.open_gate("at work")
    job = jobs.until("at work", "SUCCESS")
    assert_in_order(job)
    assert [t["event"] for t in job["transitions"]] == ["START", "RETRY", "START", "COMPLETE"]
    assert "lost" in job["transitions"][1]["message"], job["transitions"]
    assert job["attempt"] == 2


@pytest.mark.parametrize("shift", [-HOUR, HOUR], ids=["back", "forward"])
def test_an_outage_is_known_for_what_it_is_and_how_long_whatever_clock_the_worker_has(
    stack: Stack, jobs: GatedJobs, clock: ShiftedClock, shift: timedelta
) -> None:
    jobs.submit("at work", STEPS, gate_after=2)
    jobs.until("at work", "PROCESSING", step=2)
    set_clock(stack, clock, shift)
    with frozen(stack):
        began = time.monotonic()
        wait_until("it was away", lambda: time.monotonic() - began > OUTAGE_SECONDS)
    jobs.open_gate("at work")
    job = jobs.until("at work", "SUCCESS")
    assert_undisturbed(job, "Temporal was out of reach")
    for loss in [t for t in job["transitions"] if "out of reach" in t["message"]]:
        said = re.search(r"Temporal was out of reach for about (\d+) s", loss["message"])
        assert said is not None, loss
        assert int(said[1]) < HOUR.total_seconds() / 2
