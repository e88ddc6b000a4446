"""What a clock that is set by an hour still breaks. Becomes part of test_clock.py once mended."""

import os
import re
import signal
import time
from datetime import timedelta

import pytest

from tests.end_to_end.gated_jobs import GatedJobs
from tests.end_to_end.shifted_clock import ShiftedClock
from tests.end_to_end.stack import Stack, wait_until
from tests.end_to_end.test_clock import (
    HOUR,
    STEPS,
    assert_in_order,
    at,
    clock,
    jobs,
    see_no_job_disturbed,
    set_clock,
    stack,
)
from tests.end_to_end.test_outage_moments import OUTAGE_SECONDS, frozen

__all__ = ["clock", "jobs", "stack"]


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
    assert job["attempt"] == 1, job["transitions"]
    for loss in [t for t in job["transitions"] if t["event"] == "RETRY"]:
        said = re.search(r"Temporal was out of reach for about (\d+) s", loss["message"])
        assert said is not None, loss
        assert int(said[1]) < HOUR.total_seconds() / 2


def test_a_clock_that_is_set_back_by_an_hour_disturbs_no_job(
    stack: Stack, jobs: GatedJobs, clock: ShiftedClock
) -> None:
    see_no_job_disturbed(stack, jobs, clock, -HOUR)
