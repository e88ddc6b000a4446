"""A job's decisions about its attempts: claims, retries, losses and hand-backs."""

from datetime import timedelta

import pytest

from activities.errors import ErrorKind
from activities.models import ClaimInput, StopReason, WorkResult
from activities.refs import CheckpointRef
from tests.workflows.pure import (
    SUCCEEDED,
    WORKER,
    Clock,
    checkpoint,
    claim,
    claimed_job,
    events_of,
    failure,
    loss,
    new_job,
    stopped,
    wait_of,
)
from workflows import options
from workflows.ends import end_attempt, lose_attempt_to_outage
from workflows.job import Job
from workflows.messages import MAX_MESSAGE_LENGTH
from workflows.notes import ControlNote
from workflows.outcomes import AttemptFailure
from workflows.state_machine import IllegalTransitionError, JobState

PERMANENT = [
    ErrorKind.INVALID_PARAMETERS,
    ErrorKind.CONTENT_REJECTED,
    ErrorKind.LABEL_NOT_FOUND,
    ErrorKind.OUTCOME_UNKNOWN,
]
REPEATABLE = [
    ErrorKind.ENGINE_UNAVAILABLE,
    ErrorKind.RATE_LIMITED,
    ErrorKind.ENGINE_CRASHED,
    ErrorKind.ENGINE_STALLED,
    ErrorKind.WORKER_LOST,
    ErrorKind.STORAGE,
    ErrorKind.INTERNAL,
]


def fail_until_final(job: Job, kind: ErrorKind) -> int:
    """Let attempt after attempt fail; returns how many were made."""
    attempts = 0
    while not job.state.is_terminal:
        claim(job)
        end_attempt(job, failure(kind))
        attempts += 1
    return attempts


@pytest.mark.parametrize("kind", PERMANENT)
def test_permanent_error_fails_the_job_at_once(kind: ErrorKind) -> None:
    job = new_job(Clock(), max_attempts=10)
    assert fail_until_final(job, kind) == 1
    error = job.record.status.error
    assert error is not None
    assert (error.kind, error.message, error.retryable) == (kind, "it broke", False)


def test_out_of_memory_gets_one_more_attempt() -> None:
    job = new_job(Clock(), max_attempts=10)
    assert fail_until_final(job, ErrorKind.OUT_OF_MEMORY) == 2
    assert events_of(job) == ["START", "RETRY", "START", "FAIL"]


@pytest.mark.parametrize("kind", REPEATABLE)
@pytest.mark.parametrize("max_attempts", [1, 3, 10])
def test_passing_error_is_retried_up_to_the_jobs_own_number(
    kind: ErrorKind, max_attempts: int
) -> None:
    job = new_job(Clock(), max_attempts=max_attempts)
    assert fail_until_final(job, kind) == max_attempts
    assert job.record.status.error is not None
    assert job.record.status.error.retryable


def test_every_error_kind_is_either_permanent_or_retried() -> None:
    outside_of_work = [ErrorKind.TIMEOUT, ErrorKind.TERMINATED]
    kinds = [*PERMANENT, *REPEATABLE, ErrorKind.OUT_OF_MEMORY, *outside_of_work]
    assert set(kinds) == set(ErrorKind)


def test_attempts_are_counted_over_all_kinds() -> None:
    job = claimed_job(Clock(), max_attempts=3)
    end_attempt(job, failure(ErrorKind.OUT_OF_MEMORY))
    claim(job)
    end_attempt(job, failure(ErrorKind.STORAGE))
    claim(job)
    assert job.record.status.attempt == 3
    end_attempt(job, failure(ErrorKind.INTERNAL))
    assert job.state is JobState.FAILED


def test_intervals_grow_with_the_failures_and_with_the_load() -> None:
    clock = Clock()
    for load, bases in ((0.0, (2, 4, 8, 16)), (1.0, (2, 8, 32, 128))):
        job = new_job(clock, max_attempts=10)
        for base in bases:
            claim(job)
            end_attempt(job, failure(ErrorKind.STORAGE, load=load))
            assert 0.8 * base <= wait_of(job, clock) <= base


def test_interval_is_never_longer_than_five_minutes() -> None:
    clock = Clock()
    job = new_job(clock, max_attempts=10)
    for _ in range(9):
        claim(job)
        end_attempt(job, failure(ErrorKind.STORAGE, load=4.0))
        assert wait_of(job, clock) <= 300


@pytest.mark.parametrize(
    ("asked", "granted"),
    [(0, 0), (0.5, 0.5), (3600, 3600), (1e300, 86_400), (float("inf"), 86_400), (-5, 0)],
)
def test_retry_after_of_a_provider_wins_within_a_day(asked: float, granted: float) -> None:
    clock = Clock()
    job = claimed_job(clock)
    end_attempt(job, failure(ErrorKind.RATE_LIMITED, load=4.0, retry_after_seconds=asked))
    assert job.state is JobState.PENDING
    assert wait_of(job, clock) == granted


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), 1e308, -1e308])
def test_nonsense_in_a_report_still_gives_an_interval(nonsense: float) -> None:
    clock = Clock()
    job = new_job(clock, max_attempts=10)
    for _ in range(9):
        claim(job)
        end_attempt(job, failure(ErrorKind.ENGINE_CRASHED, load=nonsense))
        assert 0 <= wait_of(job, clock) <= 300
    claim(job)
    job = claimed_job(clock)
    end_attempt(job, failure(ErrorKind.RATE_LIMITED, retry_after_seconds=float("nan")))
    assert 8 <= wait_of(job, clock) <= 10


def test_lost_worker_is_noticed_by_the_watchdog_and_replaced_at_once() -> None:
    clock = Clock()
    job = claimed_job(clock)
    end_attempt(job, loss(checkpoint=checkpoint(12)))
    retry = job.record.transitions[-1]
    assert (retry.event, retry.source) == ("RETRY", "watchdog")
    assert retry.message == "the worker fake was lost; next attempt at once"
    assert job.record.status.checkpoint == checkpoint(12)
    claim(job)
    assert job.record.status.attempt == 2
    assert job.record.transitions[-1].message == "attempt 2 of 3, from step 12"


SECONDS_8 = timedelta(seconds=8)


def test_loss_in_an_outage_uses_up_no_attempt() -> None:
    clock = Clock()
    job = claimed_job(clock, max_attempts=1)
    lose_attempt_to_outage(job, loss(checkpoint=checkpoint(12)), SECONDS_8)
    retry = job.record.transitions[-1]
    assert (retry.event, retry.source) == ("RETRY", "watchdog")
    words = "Temporal was out of reach for about 8 s; next attempt at once"
    assert retry.message == words
    assert wait_of(job, clock) == 0
    assert job.record.status.checkpoint == checkpoint(12)
    claim(job)
    assert job.record.status.attempt == 1


def test_free_losses_in_outages_are_bounded() -> None:
    job = claimed_job(Clock(), max_attempts=1)
    for _ in range(options.MAX_OUTAGE_LOSSES):
        lose_attempt_to_outage(job, loss(), SECONDS_8)
        assert job.state is JobState.PENDING
        claim(job)
    lose_attempt_to_outage(job, loss(), SECONDS_8)
    assert job.state is JobState.FAILED
    assert job.record.status.error is not None
    assert job.record.status.error.kind == ErrorKind.WORKER_LOST


def test_failure_without_a_checkpoint_keeps_the_last_one() -> None:
    job = claimed_job(Clock())
    end_attempt(job, loss(checkpoint=checkpoint(12)))
    claim(job)
    end_attempt(job, failure(ErrorKind.ENGINE_CRASHED))
    assert job.record.status.checkpoint == checkpoint(12)


def test_checkpoint_of_another_job_is_not_kept() -> None:
    job = claimed_job(Clock())
    end_attempt(job, loss(checkpoint=CheckpointRef(key="checkpoints/y/1-9", step=9)))
    assert job.record.status.checkpoint is None


@pytest.mark.parametrize(
    "outcome", [loss(), WorkResult(stopped=StopReason.WORKER_STOPPING, worker=WORKER), SUCCEEDED]
)
def test_unclaimed_losses_use_up_no_attempt_but_are_bounded(
    outcome: AttemptFailure | WorkResult,
) -> None:
    job = new_job(Clock(), max_attempts=1)
    for _ in range(options.MAX_UNCLAIMED_LOSSES - 1):
        job.next_dispatch()
        end_attempt(job, outcome)
        assert job.state is JobState.PENDING
        assert job.ledger.current == 1
    job.next_dispatch()
    end_attempt(job, outcome)
    assert job.state is JobState.FAILED
    assert job.record.status.error is not None
    assert job.record.status.error.kind == ErrorKind.WORKER_LOST


def test_only_the_first_unclaimed_loss_is_replaced_at_once() -> None:
    clock = Clock()
    job = new_job(clock)
    waits = []
    for _ in range(4):
        job.next_dispatch()
        end_attempt(job, loss())
        waits.append(wait_of(job, clock))
    assert waits[0] == 0
    assert 0 < waits[1] < waits[2] < waits[3]


def test_hand_back_is_free_if_the_job_advanced() -> None:
    job = claimed_job(Clock(), max_attempts=1)
    end_attempt(job, stopped(StopReason.WORKER_STOPPING, 5))
    assert events_of(job) == ["START", "PAUSE", "RESUME"]
    pause, resume = job.record.transitions[1:]
    assert (pause.source, pause.message) == ("worker:fake", "the worker is stopping")
    assert resume.at == pause.at
    assert resume.source == "watchdog"
    claim(job)
    assert job.record.status.attempt == 1


def test_hand_back_without_progress_uses_up_an_attempt() -> None:
    job = claimed_job(Clock(), max_attempts=2)
    end_attempt(job, stopped(StopReason.WORKER_STOPPING, 5))
    claim(job)
    end_attempt(job, stopped(StopReason.WORKER_STOPPING, 5))
    claim(job)
    assert job.record.status.attempt == 2
    end_attempt(job, stopped(StopReason.WORKER_STOPPING, 5))
    assert job.state is JobState.FAILED


def test_free_hand_backs_are_bounded() -> None:
    job = new_job(Clock(), max_attempts=1)
    for step in range(1, options.MAX_FREE_HAND_BACKS + 1):
        claim(job)
        end_attempt(job, stopped(StopReason.WORKER_STOPPING, step))
        assert job.state is JobState.PENDING
    claim(job)
    end_attempt(job, stopped(StopReason.WORKER_STOPPING, options.MAX_FREE_HAND_BACKS + 1))
    assert job.state is JobState.FAILED


def test_success_shows_the_image_and_its_seed() -> None:
    job = claimed_job(Clock())
    end_attempt(job, SUCCEEDED)
    assert job.state is JobState.SUCCESS
    assert job.record.status.result is not None
    assert job.record.status.result.seed == 7
    assert job.record.status.finished_at == job.record.updated_at


def test_attempt_that_ends_with_nothing_has_failed() -> None:
    job = claimed_job(Clock(), max_attempts=1)
    end_attempt(job, WorkResult(worker=WORKER))
    assert job.record.status.error is not None
    assert job.record.status.error.kind == ErrorKind.INTERNAL


@pytest.mark.parametrize("dispatch", [-1, 0, 2])
def test_claim_of_another_dispatch_is_refused(dispatch: int) -> None:
    job = new_job(Clock())
    job.next_dispatch()
    assert job.refusal_of(ClaimInput(dispatch=dispatch, worker="late")) is not None


def test_claim_is_refused_while_no_attempt_is_scheduled() -> None:
    job = new_job(Clock())
    assert job.refusal_of(ClaimInput(dispatch=0, worker="early")) is not None
    for _ in range(2):
        dispatch = job.next_dispatch()
        end_attempt(job, loss())
        assert job.refusal_of(ClaimInput(dispatch=dispatch, worker="late")) is not None


def test_claim_is_refused_once_it_is_granted() -> None:
    job = claimed_job(Clock())
    assert job.refusal_of(ClaimInput(dispatch=1, worker="second")) is not None
    end_attempt(job, failure(ErrorKind.STORAGE))
    assert job.refusal_of(ClaimInput(dispatch=1, worker="second")) is not None


def test_claim_is_refused_when_a_cancel_or_a_pause_is_wished() -> None:
    for wish in ("cancel", "pause"):
        job = new_job(Clock())
        setattr(job.wishes, wish, ControlNote())
        dispatch = job.next_dispatch()
        assert job.refusal_of(ClaimInput(dispatch=dispatch, worker="late")) is not None


def test_long_message_of_an_attempt_is_shortened() -> None:
    job = claimed_job(Clock(), max_attempts=1)
    end_attempt(job, failure(ErrorKind.ENGINE_CRASHED, "x" * 1_000_000))
    assert job.record.status.error is not None
    assert len(job.record.status.error.message) == MAX_MESSAGE_LENGTH
    assert len(job.record.transitions[-1].message) == MAX_MESSAGE_LENGTH


def test_final_job_refuses_everything_and_is_not_changed() -> None:
    job = claimed_job(Clock())
    end_attempt(job, SUCCEEDED)
    before = job.record.view()
    moves = job.moves
    for act in (job.cancel, moves.time_out_in_queue, moves.time_out_paused, lambda: job.claim("w")):
        with pytest.raises(IllegalTransitionError):
            act()
    assert job.record.view() == before
