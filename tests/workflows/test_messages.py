"""Ids, inputs and outcomes: what is accepted, and how the rest reads."""

from collections.abc import Sequence

import pytest
from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ActivityError, ApplicationError, RetryState

from activities.models import WorkResult
from tests.workflows.pure import SUCCEEDED, image_request
from workflows.job_input import MAX_INPUT_BYTES, UnreadableInputError, read_input
from workflows.messages import ImageJobInput, job_id_of, workflow_id_for
from workflows.outcomes import AttemptFailure, read_failure, read_result

CONVERTER = pydantic_data_converter.payload_converter
JSON = {"encoding": b"json/plain"}


def raw(*payloads: Payload) -> Sequence[RawValue]:
    """Arguments as the workflow gets them."""
    return [RawValue(payload) for payload in payloads]


def of_json(text: str) -> Payload:
    """What the CLI's `--input` makes of a text."""
    return Payload(metadata=JSON, data=text.encode())


def reason_of(args: Sequence[RawValue]) -> str:
    """Why the input is not readable."""
    with pytest.raises(UnreadableInputError) as caught:
        read_input(args, CONVERTER)
    return str(caught.value)


@pytest.mark.parametrize("job_id", ["a", "3f0c9a52b1d84e0f8d4c7a6b5e2f1a90", "a-b-c", "0" * 100])
def test_job_id_and_workflow_id_are_inverse(job_id: str) -> None:
    assert job_id_of(workflow_id_for(job_id)) == job_id


@pytest.mark.parametrize(
    "workflow_id",
    [
        "",
        "job-",
        "job",
        "jobs-a",
        "job--a",
        "job-A",
        "job-a b",
        "job-é",
        "job-a\n",
        "job-" + "0" * 101,
    ],
)
def test_other_workflow_ids_are_no_jobs(workflow_id: str) -> None:
    assert job_id_of(workflow_id) is None


def test_least_input_is_a_prompt() -> None:
    request = read_input(raw(of_json('{"parameters": {"prompt": "x"}}')), CONVERTER)
    assert request == ImageJobInput.model_validate({"parameters": {"prompt": "x"}})


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (of_json("7"), "input"),
        (of_json("null"), "input"),
        (of_json("[]"), "input"),
        (of_json("{}"), "parameters: Field required"),
        (of_json('{"parameters": {}}'), "parameters.prompt: Field required"),
        (of_json('{"parameters": {"prompt": ""}}'), "at least 1 character"),
        (of_json('{"parameters": {"prompt": "x", "seed": -1}}'), "parameters.seed"),
        (of_json('{"parameters": {"prompt": "x", "seed": 18446744073709551616}}'), "seed"),
        (of_json('{"parameters": {"prompt": "x", "width": 1e400}}'), "parameters.width"),
        (of_json('{"parameters": {"prompt": "\\ud800"}}'), ""),
        (of_json('{"parameters": {"prompt": "x"}, "max_attempts": 11}'), "max_attempts"),
        (of_json('{"parameters": {"prompt": "x"}, "tenant": "金"}'), "tenant"),
        (of_json('{"parameters": {"prompt": "x"}, "start_at": "2026-01-01T00:00"}'), "start_at"),
        (of_json("{"), ""),
        (of_json("[" * 100_000), ""),
        (of_json('"' + "x" * MAX_INPUT_BYTES + '"'), "larger than 1,048,576 bytes"),
        (Payload(metadata=JSON, data=b"\xff\xfe"), ""),
        (Payload(metadata={"encoding": b"binary/null"}), "not JSON"),
        (Payload(metadata={"encoding": b"binary/plain"}, data=b"{}"), "not JSON"),
        (Payload(metadata={"encoding": b"binary/zipped"}, data=b"{}"), "not JSON"),
        (Payload(data=b'{"parameters": {"prompt": "x"}}'), "not JSON"),
    ],
)
def test_unreadable_input_is_told_in_words(payload: Payload, words: str) -> None:
    assert words in reason_of(raw(payload))


@pytest.mark.parametrize("count", [0, 2, 5])
def test_wrong_number_of_inputs_is_told(count: int) -> None:
    good = of_json('{"parameters": {"prompt": "x"}}')
    reason = reason_of(raw(*[good] * count))
    assert reason == f"a job takes one input, an object; {count} were given"


@pytest.mark.parametrize("tenant", ["", "a" * 65, "a'b", 'a"b', "a b", "-a", "ä"])
def test_tenant_is_something_that_can_be_filtered_by(tenant: str) -> None:
    with pytest.raises(ValidationError):
        image_request(tenant=tenant)


@pytest.mark.parametrize("engine", ["", "A", "-a", "a.b", "a" * 41, "a/b"])
def test_engine_is_something_that_can_name_a_queue(engine: str) -> None:
    with pytest.raises(ValidationError):
        image_request(engine=engine)


@pytest.mark.parametrize(
    "payload",
    [
        None,
        of_json("null"),
        of_json("{}"),
        of_json('"done"'),
        Payload(metadata={"encoding": b"binary/null"}),
        Payload(metadata={"encoding": b"binary/plain"}, data=b"x"),
        Payload(metadata={"encoding": b"unknown"}, data=b"x"),
    ],
)
def test_result_that_an_operator_made_up_is_a_failure(payload: Payload | None) -> None:
    result = RawValue(payload) if payload is not None else None
    failure = read_result(result, CONVERTER, "w")
    assert isinstance(failure, AttemptFailure)
    assert (failure.kind, failure.message) == ("INTERNAL", "the attempt's result could not be read")


def test_result_of_a_worker_is_read() -> None:
    [payload] = CONVERTER.to_payloads([SUCCEEDED])
    assert isinstance(read_result(RawValue(payload), CONVERTER, "w"), WorkResult)


@pytest.mark.parametrize("details", [(), ({"kind": "NEW"},), ("x",), (None,)])
def test_failure_that_no_attempt_reported_reads_as_internal(details: tuple[object, ...]) -> None:
    error = ActivityError(
        "failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type="",
        activity_id="",
        retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )
    error.__cause__ = ApplicationError("secret path", *details)
    failure = read_failure(error, "w")
    assert (failure.kind, failure.report.worker) == ("INTERNAL", "w")
    assert failure.message == "the worker could not run the attempt"
