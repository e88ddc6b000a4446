"""Pause, resume and cancel: what comes first, and what takes what back."""

from collections.abc import Callable

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.errors import ErrorKind
from activities.models import StopReason
from tests.workflows.pure import (
    SUCCEEDED,
    WORKER,
    Clock,
    at_step,
    checkpoint,
    claim,
    claimed_job,
    events_of,
    failure,
    new_job,
    stopped,
)
from workflows import options
from workflows.ends import end_attempt
from workflows.job import Job
from workflows.notes import NOTHING_SENT, ControlNote, control_note
from workflows.outcomes import AttemptFailure
from workflows.state_machine import JobState
from workflows.wishes import Wishes

CONVERTER = pydantic_data_converter.payload_converter
ANNE = ControlNote(source="api:anne", message="lunch")
BEN = ControlNote(source="api:ben", message="too dark")


def ask(job: Job, wish: str, note: ControlNote = ANNE) -> str | None:
    """Ask the job as a signal does."""
    refusal: str | None = getattr(job.wishes, f"ask_{wish}")(note, job.state)
    return refusal


def grant_all(job: Job) -> None:
    """Act on wishes as long as there are any."""
    while job.wishes.any and not job.state.is_terminal:
        job.grant_wishes()


def paused_job(clock: Clock) -> Job:
    """A job that was paused before it started."""
    job = new_job(clock)
    ask(job, "pause")
    grant_all(job)
    assert job.state is JobState.PAUSED
    return job


def test_cancel_beats_pause_and_resume() -> None:
    for state_of in (new_job, paused_job):
        job = state_of(Clock())
        ask(job, "resume" if job.state is JobState.PAUSED else "pause")
        ask(job, "cancel", BEN)
        grant_all(job)
        end = job.record.transitions[-1]
        assert (end.to_state, end.source, end.message) == ("CANCELLED", "api:ben", "too dark")


def test_first_cancel_is_the_one_on_record() -> None:
    job = new_job(Clock())
    ask(job, "cancel", ANNE)
    ask(job, "cancel", BEN)
    grant_all(job)
    assert job.record.transitions[-1].source == "api:anne"


def test_cancel_is_never_taken_back() -> None:
    wishes = Wishes()
    wishes.ask_cancel(ANNE, JobState.PROCESSING)
    wishes.ask_pause(ANNE, JobState.PROCESSING)
    wishes.ask_resume(ANNE, JobState.PROCESSING)
    assert wishes.cancel == ANNE


def test_resume_takes_back_a_pause_that_was_not_begun() -> None:
    job = claimed_job(Clock())
    ask(job, "pause")
    assert ask(job, "resume", BEN) is None
    assert not job.wishes.call_for_action
    end_attempt(job, SUCCEEDED)
    assert events_of(job) == ["START", "COMPLETE"]


def test_resume_of_a_pause_that_was_begun_follows_it() -> None:
    job = claimed_job(Clock())
    ask(job, "pause")
    job.begin_pause()
    assert job.record.status.pending_request == "pause"
    assert ask(job, "resume", BEN) is None
    end_attempt(job, stopped(StopReason.PAUSE, 4))
    grant_all(job)
    assert events_of(job) == ["START", "PAUSE", "RESUME"]
    assert [t.source for t in job.record.transitions[1:]] == ["api:anne", "api:ben"]
    assert job.record.status.pending_request is None
    assert job.record.status.checkpoint == checkpoint(4)


def test_pause_takes_back_a_resume_that_was_not_carried_out() -> None:
    job = paused_job(Clock())
    ask(job, "resume")
    assert ask(job, "pause") is None
    assert not job.wishes.any
    assert job.state is JobState.PAUSED


def test_last_of_many_wishes_counts() -> None:
    job = claimed_job(Clock())
    ask(job, "pause")
    job.begin_pause()
    for wish in ("resume", "resume", "pause", "pause", "resume", "pause"):
        assert ask(job, wish) is None
    end_attempt(job, stopped(StopReason.PAUSE, 4))
    grant_all(job)
    assert job.state is JobState.PAUSED


def test_work_that_completes_before_the_pause_is_a_success() -> None:
    job = claimed_job(Clock())
    ask(job, "pause")
    job.begin_pause()
    end_attempt(job, SUCCEEDED)
    assert job.state is JobState.SUCCESS
    assert job.record.status.pending_request is None


@pytest.mark.parametrize("kind", [ErrorKind.WORKER_LOST, ErrorKind.STORAGE])
def test_job_that_failed_while_it_was_to_be_paused_is_paused_before_its_next_attempt(
    kind: ErrorKind,
) -> None:
    job = claimed_job(Clock())
    ask(job, "pause")
    job.begin_pause()
    end_attempt(job, failure(kind))
    grant_all(job)
    assert events_of(job) == ["START", "RETRY", "PAUSE"]
    assert job.record.transitions[-1].source == "api:anne"


def test_worker_that_stops_while_the_job_is_to_be_paused_leaves_it_paused() -> None:
    job = claimed_job(Clock())
    ask(job, "pause")
    job.begin_pause()
    end_attempt(job, stopped(StopReason.WORKER_STOPPING, 4))
    grant_all(job)
    assert events_of(job) == ["START", "PAUSE", "RESUME", "PAUSE"]
    ask(job, "resume")
    grant_all(job)
    claim(job)
    assert job.state is JobState.PROCESSING


def test_attempt_that_was_cancelled_for_a_pause_pauses_the_job() -> None:
    job = claimed_job(Clock())
    ask(job, "pause")
    job.begin_pause()
    cancelled = AttemptFailure.of(ErrorKind.INTERNAL, "the attempt was stopped", WORKER)
    end_attempt(job, AttemptFailure(cancelled.message, cancelled.report, cancelled=True))
    assert job.state is JobState.PAUSED
    assert job.ledger.current == 1


def test_pause_of_the_work_activity_is_a_pause_by_the_operator() -> None:
    job = claimed_job(Clock())
    end_attempt(job, stopped(StopReason.OPERATOR_PAUSE, 4))
    pause = job.record.transitions[-1]
    assert (pause.to_state, pause.source) == ("PAUSED", "operator")
    assert pause.message == "paused with `temporal activity pause`"


def test_pause_of_an_activity_that_had_not_claimed_yet_is_not_lost() -> None:
    job = new_job(Clock())
    job.next_dispatch()
    end_attempt(job, stopped(StopReason.OPERATOR_PAUSE, 0))
    assert job.state is JobState.PAUSED


@pytest.mark.parametrize(
    ("wish", "make"),
    [("resume", new_job), ("resume", claimed_job), ("pause", paused_job)],
)
def test_illegal_wish_is_refused_with_what_is_allowed(
    wish: str, make: Callable[[Clock], Job]
) -> None:
    job = make(Clock())
    refusal = ask(job, wish)
    assert refusal is not None
    assert f"{wish.upper()} was refused: the job is {job.state}; allowed now: " in refusal
    assert not job.wishes.any


@pytest.mark.parametrize("wish", ["cancel", "pause", "resume"])
def test_final_job_refuses_every_wish(wish: str) -> None:
    job = claimed_job(Clock())
    end_attempt(job, SUCCEEDED)
    assert (ask(job, wish) or "").endswith("nothing: this state is final")
    assert not job.wishes.any


def test_pauses_are_bounded() -> None:
    job = new_job(Clock())
    for _ in range(options.MAX_PAUSES):
        assert job.ledger.may_pause
        ask(job, "pause")
        grant_all(job)
        ask(job, "resume")
        grant_all(job)
    assert not job.ledger.may_pause


def test_progress_is_that_of_the_last_attempt() -> None:
    job = claimed_job(Clock())
    end_attempt(job, failure(ErrorKind.STORAGE, progress=at_step(9)))
    assert job.record.status.progress == at_step(9)
    claim(job)
    end_attempt(job, failure(ErrorKind.STORAGE))
    assert job.record.status.progress is None


@pytest.mark.parametrize(
    "junk",
    [None, 1, "now", [], {"source": ""}, {"source": "x" * 201}, {"message": "x" * 1001}, b"\0"],
)
def test_unreadable_note_still_counts_as_the_operators(junk: object) -> None:
    note = control_note(junk, CONVERTER)
    assert note.source == "operator"
    assert "could not be read" in note.message


def test_bare_signal_and_extra_arguments_are_fine() -> None:
    assert control_note(NOTHING_SENT, CONVERTER) == ControlNote(source="operator", message="")
    assert control_note({"source": "api:x", "message": "m", "more": 1}, CONVERTER) == ControlNote(
        source="api:x", message="m"
    )
