"""Amendments, without a server: how they are read, what they change, what they leave as it is."""

from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.errors import ErrorKind
from activities.models import ClaimInput, WorkResult
from tests.fakes import FAKE_ARTIFACT
from tests.workflows.pure import (
    SUCCEEDED,
    WORKER,
    Clock,
    claim,
    claimed_job,
    failure,
    image_request,
    new_job,
)
from workflows.amending import MAX_AMENDMENTS, AmendNote, amend_note
from workflows.chain import removal_input
from workflows.ends import end_attempt
from workflows.job import Job
from workflows.notes import NOTHING_SENT, ControlNote
from workflows.presentation import current_details
from workflows.search_attributes import JOB_PRIORITY, current_search_attributes
from workflows.starting import start_options, task_priority
from workflows.state_machine import JobState

CONVERTER = pydantic_data_converter.payload_converter


def ask(job: Job, **fields: Any) -> str | None:
    """Ask for an amendment as a signal does."""
    note = AmendNote(source="api:anne", **fields)
    return job.wishes.ask_amend(note, job.state, len(job.record.status.amendments))


def amended(job: Job, **fields: Any) -> Job:
    """The job, once it is amended so."""
    assert ask(job, **fields) is None
    job.amend()
    return job


def test_note_names_what_is_to_be_different_and_who_says_so() -> None:
    sent = {"priority": 8, "timeout_seconds": 60, "source": "api:anne", "message": "urgent"}
    assert amend_note(sent, CONVERTER) == AmendNote(
        priority=8, timeout_seconds=60, source="api:anne", message="urgent"
    )
    assert amend_note({"priority": 0}, CONVERTER) == AmendNote(priority=0, source="operator")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (NOTHING_SENT, "is needed"),
        ({}, "is needed"),
        ({"message": "faster"}, "is needed"),
        ({"priority": None, "timeout_seconds": None}, "is needed"),
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": "7"}, "priority"),
        ({"priority": 7.0}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": 10**400}, "priority"),
        ({"timeout_seconds": 9}, "timeout_seconds"),
        ({"timeout_seconds": 86_401}, "timeout_seconds"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds"),
        ({"priority": 7, "timout_seconds": 60}, "timout_seconds"),
        ({"priority": 7, "message": "x" * 201}, "message"),
        ({"priority": 7, "source": ""}, "source"),
        ({"priority": 7, "x" * 100_000: 1}, "xxx"),
        (None, "AMEND was refused"),
        (7, "AMEND was refused"),
        ([{"priority": 7}], "AMEND was refused"),
        (RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{")), "Invalid JSON"),
        (RawValue(Payload(metadata={"encoding": b"x"}, data=b"?")), "could not be read"),
    ],
    ids=lambda value: "nothing" if value is NOTHING_SENT else str(value)[:30],
)
def test_note_that_is_wrong_in_any_way_is_refused_as_a_whole(sent: object, reason: str) -> None:
    told = amend_note(sent, CONVERTER)
    assert isinstance(told, str)
    assert reason in told
    assert len(told) <= 1000


def test_queued_job_of_another_priority_has_to_be_dispatched_anew() -> None:
    job = new_job(Clock())
    stale = ClaimInput(dispatch=job.next_dispatch(), worker=WORKER)
    amended(job, priority=8, message="urgent")
    assert not job.has_attempt
    assert "over" in (job.refusal_of(stale) or "")
    assert job.record.priority == 8
    assert job.request.priority == 5
    claim(job)
    assert (job.state, job.record.status.dispatch) == (JobState.PROCESSING, 2)
    assert job.record.status.attempt == 1


def test_queued_job_keeps_its_place_where_its_priority_is_the_same() -> None:
    job = new_job(Clock())
    dispatch = job.next_dispatch()
    amended(job, timeout_seconds=60)
    ask(job, priority=8)
    ask(job, priority=5)
    job.amend()
    assert job.has_attempt
    assert job.refusal_of(ClaimInput(dispatch=dispatch, worker=WORKER)) is None


def test_amendment_that_changes_nothing_leaves_no_trace() -> None:
    job = amended(new_job(Clock()), priority=5, timeout_seconds=1800)
    assert not job.record.status.amendments
    amended(amended(job, priority=7), priority=7)
    [entry] = job.record.status.amendments
    assert (entry.priority, entry.timeout_seconds, entry.source) == (7, None, "api:anne")


def test_job_is_amended_a_bounded_number_of_times() -> None:
    job = new_job(Clock())
    for n in range(MAX_AMENDMENTS):
        assert ask(job, timeout_seconds=10 + n) is None
        if n % 2:
            job.amend()
    assert f"at most {MAX_AMENDMENTS} times" in (ask(job, priority=9) or "")
    job.amend()
    assert "at most" in (ask(job, priority=9) or "")
    assert len(job.record.status.amendments) == MAX_AMENDMENTS
    assert job.record.priority == 5


def test_finished_job_is_not_amended() -> None:
    job = claimed_job(Clock())
    end_attempt(job, SUCCEEDED)
    assert "SUCCESS" in (ask(job, priority=9) or "")
    assert not job.wishes.any


def test_running_job_keeps_its_worker_and_takes_the_priority_for_its_next_attempt() -> None:
    clock = Clock()
    job = amended(claimed_job(clock), priority=9)
    assert job.has_attempt
    end_attempt(job, failure(ErrorKind.STORAGE))
    assert (job.state, job.record.priority) == (JobState.PENDING, 9)


@pytest.mark.parametrize(("limit", "left"), [(600, 550), (50, 0), (10, -40)])
def test_limit_of_a_running_job_counts_at_once(limit: int, left: int) -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(50)
    amended(job, timeout_seconds=limit)
    assert job.limits.processing_left.total_seconds() == left
    deadline = job.record.status.deadline_at
    assert deadline is not None
    assert (deadline - clock.now).total_seconds() == left


def test_limit_that_is_past_is_judged_by_the_usual_rules() -> None:
    clock = Clock()
    moving, stuck = (claimed_job(clock, timeout_seconds=100) for _ in range(2))
    clock.pass_seconds(50)
    for job in (moving, stuck):
        amended(job, timeout_seconds=20)
    assert moving.judge_limit(1.0) is not None
    assert stuck.judge_limit(45.0) is None
    assert stuck.state is JobState.TIMEOUT_CANCELLED
    assert "its limit of 20 s" in stuck.record.transitions[-1].message


def test_new_limit_counts_whatever_an_extension_made_of_the_last_one() -> None:
    clock = Clock()
    job = claimed_job(clock, timeout_seconds=100)
    clock.pass_seconds(100)
    job.judge_limit(0.0)
    amended(job, priority=9)
    assert job.limits.processing_left.total_seconds() == 120
    amended(job, timeout_seconds=1000)
    assert job.limits.processing_left.total_seconds() == 900
    assert len(job.record.status.extensions) == 1


def test_limit_of_a_waiting_job_counts_from_its_next_attempt_on() -> None:
    clock = Clock()
    job = amended(new_job(clock), timeout_seconds=60)
    assert job.record.status.deadline_at is None
    claim(job)
    assert job.limits.processing_left.total_seconds() == 60


def test_paused_job_is_amended_before_it_is_resumed() -> None:
    job = new_job(Clock())
    job.wishes.ask_pause(ControlNote(), job.state)
    job.grant_wishes()
    ask(job, priority=9)
    job.grant_wishes()
    assert (job.state, job.record.priority) == (JobState.PAUSED, 9)
    assert not job.wishes.any


def test_priority_in_force_is_what_is_listed_shown_and_inherited() -> None:
    job = claimed_job(Clock(), fairness_weight=3.0)
    assert not any(u.key == JOB_PRIORITY for u in current_search_attributes(job.record))
    amended(job, priority=2, timeout_seconds=77, message="later")
    [told] = [u.value for u in current_search_attributes(job.record) if u.key == JOB_PRIORITY]
    assert told == 2
    details = current_details(job.record, None)
    assert "amended to priority 2, timeout_seconds 77 by api:anne: later" in details
    sha256 = "0" * 64
    image = FAKE_ARTIFACT.model_copy(update={"key": f"jobs/x/{sha256}.png", "sha256": sha256})
    end_attempt(job, WorkResult(artifact=image, worker=WORKER))
    view = job.record.view()
    assert (view.priority, view.timeout_seconds) == (2, 77)
    assert view.request is not None
    assert (view.request.priority, view.request.timeout_seconds) == (5, 1800)
    removal = removal_input(view, "api:anne", view.updated_at)
    assert (removal.priority, removal.fairness_weight) == (2, 3.0)
    assert removal.timeout_seconds == 1800


def test_tasks_are_weighed_by_tenant() -> None:
    request = image_request(tenant="anne", fairness_weight=0.5, priority=9)
    given = start_options("x", request, Clock().now)["priority"]
    assert given == task_priority(request, 9)
    assert (given.priority_key, given.fairness_key, given.fairness_weight) == (1, "anne", 0.5)
