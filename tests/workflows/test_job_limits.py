"""A job's limits: processing, queue and pause time, extensions, and clocks that jump."""

from datetime import timedelta

import pytest

from activities.errors import ErrorKind
from activities.models import StopReason, WorkResult
from tests.workflows.pure import (
    START,
    SUCCEEDED,
    Clock,
    at_step,
    claim,
    claimed_job,
    events_of,
    failure,
    loss,
    new_job,
    stopped,
)
from workflows import options
from workflows.ends import end_attempt
from workflows.job import Job
from workflows.notes import ControlNote
from workflows.outcomes import AttemptFailure
from workflows.state_machine import JobState


def pause_and_resume(job: Job, clock: Clock, seconds: float) -> None:
    """Hold a waiting job back for some time."""
    job.wishes.ask_pause(ControlNote(), job.state)
    job.grant_wishes()
    clock.pass_seconds(seconds)
    job.wishes.ask_resume(ControlNote(), job.state)
    job.grant_wishes()


def test_processing_time_is_summed_over_attempts_and_stands_still_in_between() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(30)
    end_attempt(job, loss())
    clock.pass_seconds(5000)
    claim(job)
    clock.pass_seconds(20)
    assert job.limits.processing_left == timedelta(seconds=50)


def test_deadline_is_shown_while_the_job_is_processed_and_only_then() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    assert job.record.status.deadline_at == START + timedelta(seconds=100)
    clock.pass_seconds(30)
    end_attempt(job, stopped(StopReason.WORKER_STOPPING, 1))
    assert job.record.status.deadline_at is None
    clock.pass_seconds(1000)
    claim(job)
    assert job.record.status.deadline_at == clock.now + timedelta(seconds=70)


def test_deadline_of_a_job_without_time_left_is_not_in_the_past() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(150)
    end_attempt(job, stopped(StopReason.WORKER_STOPPING, 1))
    claim(job)
    assert job.record.status.deadline_at == clock.now


def test_queue_time_counts_only_since_the_job_could_start() -> None:
    clock = Clock()
    job = new_job(clock, queue_timeout_seconds=100)
    job.record.update(startable_at=START + timedelta(seconds=500))
    clock.pass_seconds(400)
    assert job.limits.delay == timedelta(seconds=100)
    assert job.limits.queue_time_left == timedelta(seconds=100)
    clock.pass_seconds(130)
    assert job.limits.queue_time_left == timedelta(seconds=70)


def test_wait_in_the_queue_costs_nothing_of_the_processing_time() -> None:
    clock = Clock()
    job = new_job(clock, timeout_seconds=60)
    clock.pass_seconds(180)
    claim(job)
    assert job.limits.processing_left.total_seconds() == 60
    clock.pass_seconds(59)
    end_attempt(job, SUCCEEDED)
    assert job.state is JobState.SUCCESS


def test_wait_before_a_retry_is_no_queue_time() -> None:
    clock = Clock()
    job = claimed_job(clock, queue_timeout_seconds=100)
    end_attempt(job, failure(ErrorKind.RATE_LIMITED, retry_after_seconds=300))
    clock.pass_seconds(300)
    assert job.limits.queue_time_left == timedelta(seconds=100)
    clock.pass_seconds(10)
    assert job.limits.queue_time_left == timedelta(seconds=90)


def test_queue_time_is_summed_over_the_jobs_life() -> None:
    clock = Clock()
    job = new_job(clock, queue_timeout_seconds=100)
    clock.pass_seconds(40)
    claim(job)
    clock.pass_seconds(1000)
    end_attempt(job, loss())
    clock.pass_seconds(40)
    assert job.limits.queue_time_left == timedelta(seconds=20)


def test_pause_is_neither_queue_nor_processing_time() -> None:
    clock = Clock()
    job = new_job(clock)
    pause_and_resume(job, clock, 5000)
    assert job.limits.queue_time_left == job.request.queue_timeout
    assert job.limits.processing_left.total_seconds() == job.request.timeout_seconds


def test_pauses_are_summed_up_to_their_own_limit() -> None:
    clock = Clock()
    job = new_job(clock)
    for _ in range(2):
        pause_and_resume(job, clock, timedelta(days=10).total_seconds())
    assert job.limits.pause_left == timedelta(days=10)
    job.wishes.ask_pause(ControlNote(), job.state)
    job.grant_wishes()
    clock.pass_seconds(timedelta(days=10).total_seconds())
    assert job.limits.pause_left == timedelta(0)
    job.moves.time_out_paused()
    assert job.state is JobState.TIMEOUT_CANCELLED
    assert job.record.transitions[-1].message == "the job was paused for longer than 30 days in all"


def test_queue_limit_ends_a_job_that_no_worker_took() -> None:
    job = new_job(Clock(), queue_timeout_seconds=60)
    late = AttemptFailure.of(ErrorKind.TIMEOUT, "no worker took the job in time", "")
    job.next_dispatch()
    end_attempt(job, AttemptFailure(late.message, late.report, by_watchdog=True, in_queue=True))
    assert job.state is JobState.TIMEOUT_CANCELLED
    end = job.record.transitions[-1]
    assert end.source == "watchdog"
    assert end.message == "no worker took the job within its queue limit of 60 s"
    assert job.record.status.error is not None
    assert job.record.status.error.kind == ErrorKind.TIMEOUT


@pytest.mark.parametrize("idle", [0.0, 39.9, None])
def test_job_that_moved_lately_gets_two_more_minutes(idle: float | None) -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(100)
    assert job.judge_limit(idle) == timedelta(minutes=2)
    [extension] = job.record.status.extensions
    assert (extension.at, extension.until) == (clock.now, clock.now + timedelta(minutes=2))
    assert job.record.status.deadline_at == extension.until
    assert job.state is JobState.PROCESSING


def test_job_without_progress_is_timed_out_at_its_limit() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(100)
    assert job.judge_limit(40.0) is None
    assert job.state is JobState.TIMEOUT_CANCELLED
    message = "the job was worked on for its limit of 100 s, without progress for 40 s"
    assert job.record.transitions[-1].message == message


def test_extensions_are_bounded_over_all_attempts() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    for number in range(options.MAX_EXTENSIONS):
        if number == 2:
            end_attempt(job, loss())
            claim(job)
        assert job.judge_limit(0.0)
    assert len(job.record.status.extensions) == options.MAX_EXTENSIONS
    assert job.judge_limit(0.0) is None
    assert job.state is JobState.TIMEOUT_CANCELLED
    assert job.record.transitions[-1].message.endswith("still moving")


@pytest.mark.parametrize("end", [loss(), stopped(StopReason.WORKER_STOPPING, 1)])
def test_extension_is_carried_over_to_the_next_attempt(end: AttemptFailure | WorkResult) -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(103)
    assert job.judge_limit(0.0) == timedelta(minutes=2)
    assert job.limits.processing_left == timedelta(minutes=2)
    clock.pass_seconds(20)
    end_attempt(job, end)
    clock.pass_seconds(500)
    claim(job)
    assert job.limits.processing_left == timedelta(seconds=100)
    assert job.record.status.deadline_at == clock.now + timedelta(seconds=100)
    assert len(job.record.status.extensions) == 1


@pytest.mark.parametrize("end", [loss(), failure(ErrorKind.ENGINE_STALLED)])
def test_attempt_that_fails_when_no_time_is_left_is_the_last(end: AttemptFailure) -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(100)
    end_attempt(job, end)
    assert job.state is JobState.TIMEOUT_CANCELLED
    reason = f"the job was worked on for its limit of 100 s; its last attempt failed: {end.message}"
    assert job.record.transitions[-1].message == reason
    assert job.record.transitions[-1].source == "watchdog"


def test_permanent_error_wins_over_the_limit() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(100)
    end_attempt(job, failure(ErrorKind.CONTENT_REJECTED))
    assert job.state is JobState.FAILED


def test_beginning_an_attempt_is_no_movement() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    assert job.limits.idle_before >= options.RECENT_PROGRESS
    clock.pass_seconds(30)
    end_attempt(job, loss())
    claim(job)
    assert job.limits.idle_before >= options.RECENT_PROGRESS + timedelta(seconds=30)
    clock.pass_seconds(70)
    assert job.judge_limit(job.limits.idle_before.total_seconds() + 70) is None
    assert job.record.transitions[-1].message.endswith("without progress for 100 s")


def test_movement_of_an_earlier_attempt_counts_from_its_end() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(30)
    end_attempt(job, loss(progress=at_step(3)))
    claim(job)
    assert job.limits.idle_before == timedelta(0)
    clock.pass_seconds(25)
    end_attempt(job, loss())
    claim(job)
    assert job.limits.idle_before == timedelta(seconds=25)


def test_result_that_comes_after_an_extension_is_a_success() -> None:
    job = claimed_job(Clock())
    job.judge_limit(1.0)
    end_attempt(job, SUCCEEDED)
    assert job.state is JobState.SUCCESS
    assert job.record.status.deadline_at is None


def test_clock_that_is_set_back_makes_no_negative_time_and_no_backward_story() -> None:
    clock = Clock()
    job = new_job(clock, timeout_seconds=100, queue_timeout_seconds=100)
    clock.pass_seconds(10)
    claim(job)
    clock.pass_seconds(-3600)
    assert job.limits.processing_left == timedelta(seconds=100)
    end_attempt(job, loss())
    assert job.limits.queue_time_left == timedelta(seconds=90)
    claim(job)
    end_attempt(job, SUCCEEDED)
    times = [transition.at for transition in job.record.transitions]
    assert times == sorted(times)
    assert events_of(job) == ["START", "RETRY", "START", "COMPLETE"]
    status = job.record.status
    assert status.started_at is not None
    assert status.finished_at is not None
    assert status.finished_at >= status.started_at


def test_execution_timeout_outlasts_every_limit_together() -> None:
    request = new_job(Clock(), max_attempts=10).request
    extensions = options.LIMIT_EXTENSION * options.MAX_EXTENSIONS
    longest = (
        timedelta(hours=5)
        + request.queue_timeout
        + options.LONGEST_PROCESSING
        + extensions
        + options.TOTAL_PAUSE_LIMIT
        + 10 * options.LONGEST_RETRY_AFTER
    )
    assert options.execution_timeout(request, timedelta(hours=5)) > longest
    assert options.LONGEST_PROCESSING + extensions < options.WORK_TIMEOUT
