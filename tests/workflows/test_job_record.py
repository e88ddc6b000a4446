"""The record of a job, and its way through the memo and back."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.errors import ErrorKind
from activities.models import SEED_LIMIT, GenerationParameters, StopReason
from tests.workflows.pure import (
    START,
    SUCCEEDED,
    Clock,
    at_step,
    checkpoint,
    claim,
    claimed_job,
    failure,
    image_request,
    new_job,
    stopped,
)
from workflows.ends import end_attempt
from workflows.job_record import JobRecord, initial_memo, memo_corrections, record_from_memo
from workflows.messages import ImageJobInput, JobStatus
from workflows.state_machine import IllegalTransitionError, JobEvent, JobState


async def through_the_converter(memo: Mapping[str, Any]) -> dict[str, Any]:
    """Encode and decode each entry without a type, as reading a memo does."""
    decoded = {}
    for key, value in memo.items():
        [decoded[key]] = await pydantic_data_converter.decode(
            await pydantic_data_converter.encode([value])
        )
    return decoded


def eventful_record() -> JobRecord:
    """The record of a job that was paused, retried and extended before it succeeded."""
    clock = Clock()
    job = claimed_job(clock)
    job.judge_limit(1.0)
    end_attempt(job, failure(ErrorKind.STORAGE, progress=at_step(3), checkpoint=checkpoint(3)))
    claim(job)
    end_attempt(job, stopped(StopReason.OPERATOR_PAUSE, 5))
    clock.pass_seconds(1.25)
    return job.record


async def test_record_survives_the_memo() -> None:
    record = eventful_record()
    request = record.request
    assert request is not None
    memo = await through_the_converter(initial_memo(request) | record.changed_memo())
    assert record_from_memo("x", record.created_at, memo).view() == record.view()


@pytest.mark.parametrize("seed", [0, 2**53 + 1, 2**63, SEED_LIMIT - 1])
async def test_every_seed_survives_the_memo_exactly(seed: int) -> None:
    request = image_request(parameters=GenerationParameters(prompt="x", seed=seed))
    memo = await through_the_converter(initial_memo(request))
    read = record_from_memo("x", START, memo).request
    assert read is not None
    assert read.parameters.seed == seed


@pytest.mark.parametrize(
    "prompt",
    ["🌄👩‍👩‍👧‍👦", "金閣寺 雪", "a\u0000b", "\u202eright to left", 'quote " \\ \n\t', "é" * 8000],
)
async def test_every_text_survives_the_memo_exactly(prompt: str) -> None:
    request = image_request(
        parameters=GenerationParameters(prompt=prompt), labels={prompt[:63]: prompt[:255]}
    )
    memo = await through_the_converter(initial_memo(request))
    assert record_from_memo("x", START, memo).request == request


async def test_times_keep_their_microseconds_and_their_zone() -> None:
    at = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
    record = JobRecord("x", START, None)
    record.apply(JobEvent.START, at=at, source="worker:w", message="")
    memo = await through_the_converter(record.changed_memo())
    assert record_from_memo("x", START, memo).transitions[0].at == at


async def test_memo_of_a_job_whose_input_nobody_could_read_has_no_request() -> None:
    record = JobRecord("x", START, None)
    record.apply(JobEvent.FAIL, at=START, source="watchdog", message="unreadable")
    read = record_from_memo("x", START, await through_the_converter(record.changed_memo()))
    assert (read.state, read.request) == (JobState.FAILED, None)


def test_empty_memo_is_a_pending_job() -> None:
    record = record_from_memo("x", START, {})
    assert (record.state, record.status, record.updated_at) == (
        JobState.PENDING,
        JobStatus(),
        START,
    )


async def test_order_of_more_than_a_thousand_transitions_is_kept() -> None:
    record = JobRecord("x", START, None)
    for number in range(1100):
        record.apply(JobEvent.RETRY, at=START, source="watchdog", message=str(number))
    read = record_from_memo("x", START, await through_the_converter(record.changed_memo()))
    assert [t.sequence for t in read.transitions] == list(range(1, 1101))
    assert read.transitions == record.transitions


def test_only_what_changed_is_written_again() -> None:
    job = new_job(Clock())
    claim(job)
    assert set(job.record.changed_memo()) == {"transition-0001", "status"}
    assert not job.record.has_untold_attributes
    assert job.record.changed_memo() == {}
    end_attempt(job, SUCCEEDED)
    assert set(job.record.changed_memo()) == {"transition-0002", "status"}


def test_newer_fields_of_a_memo_are_ignored() -> None:
    memo = {"status": {"dispatch": 3, "mood": "good"}, "weather": "fine"}
    assert record_from_memo("x", START, memo).status == JobStatus(dispatch=3)


def test_refused_transition_changes_nothing() -> None:
    record = eventful_record()
    before = record.view()
    with pytest.raises(IllegalTransitionError):
        record.apply(JobEvent.START, at=START, source="worker:w", message="")
    assert record.view() == before


def test_time_is_kept_by_state() -> None:
    record = JobRecord("x", START, None)
    record.apply(JobEvent.PAUSE, at=START + timedelta(seconds=5), source="a", message="")
    later = START + timedelta(seconds=12)
    assert record.spent_in(JobState.PENDING, later) == timedelta(seconds=5)
    assert record.spent_in(JobState.PAUSED, later) == timedelta(seconds=7)
    assert record.spent_in(JobState.PROCESSING, later) == timedelta(0)


CONVERTER = pydantic_data_converter.payload_converter
REQUEST = image_request()


def corrected(request: ImageJobInput | None, memo: dict[str, object]) -> dict[str, object]:
    """The memo of a job that was started with this one, once the job has looked at it."""
    payloads = {key: CONVERTER.to_payload(value) for key, value in memo.items()}
    corrections = memo_corrections(request, payloads, CONVERTER)
    return {key: value for key, value in (memo | corrections).items() if value is not None}


def test_memo_that_says_what_the_input_says_is_left_alone() -> None:
    payloads = {key: CONVERTER.to_payload(v) for key, v in initial_memo(REQUEST).items()}
    assert memo_corrections(REQUEST, payloads, CONVERTER) == {}
    assert memo_corrections(None, {}, CONVERTER) == {}


@pytest.mark.parametrize(
    "memo",
    [
        {},
        {"request": "junk"},
        {"request": image_request(priority=9)},
        initial_memo(REQUEST) | {"status": {"attempt": 7}},
        initial_memo(REQUEST) | {"transition-0003": "junk"},
    ],
)
def test_memo_that_says_anything_else_is_corrected(memo: dict[str, object]) -> None:
    assert corrected(REQUEST, memo) == initial_memo(REQUEST)
    assert corrected(None, memo) == {}


def test_memo_of_somebody_elses_own_is_kept() -> None:
    assert corrected(REQUEST, {"ticket": 7}) == initial_memo(REQUEST) | {"ticket": 7}


def test_memo_that_nobody_can_decode_is_corrected() -> None:
    unreadable = Payload(metadata={"encoding": b"json/plain"}, data=b'"\\ud800"')
    corrections = memo_corrections(REQUEST, {"request": unreadable}, CONVERTER)
    assert corrections == initial_memo(REQUEST)
