"""Ids, inputs and outcomes: what is accepted, and how the rest reads."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ActivityError, ApplicationError, RetryState

from activities.models import MAX_OPTIONS_BYTES, MAX_PROMPT_LENGTH, WorkResult
from tests.workflows.pure import SUCCEEDED, image_request
from workflows.job_input import (
    MAX_INPUT_BYTES,
    MAX_REQUEST_BYTES,
    UnreadableInputError,
    read_input,
)
from workflows.messages import ImageJobInput
from workflows.names import job_id_of, workflow_id_for
from workflows.outcomes import AttemptFailure, is_made_up, read_failure, read_result

CONVERTER = pydantic_data_converter.payload_converter
JSON = {"encoding": b"json/plain"}


def raw(*payloads: Payload) -> Sequence[RawValue]:
    """Arguments as the workflow gets them."""
    return [RawValue(payload) for payload in payloads]


def of_json(text: str) -> Payload:
    """What the CLI's `--input` makes of a text."""
    return Payload(metadata=JSON, data=text.encode())


def with_fields(**fields: object) -> Payload:
    """A good input, but for these."""
    return of_json(json.dumps({"parameters": {"prompt": "x"}} | fields))


def with_options(value: str) -> Payload:
    """A good input, but for an option of its engine's."""
    return of_json(f'{{"parameters": {{"prompt": "x", "engine_options": {{"a": {value}}}}}}}')


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
        (of_json('{"parameters": {"prompt": "x"}, "start_at": "1999-12-31T23:59:59Z"}'), "2000 to"),
        (of_json('{"parameters": {"prompt": "x"}, "start_at": "2201-01-01T00:00:00Z"}'), "2000 to"),
        (
            of_json('{"parameters": {"prompt": "x"}, "start_at": "9999-12-31T23:59:59-23:59"}'),
            "start_at: Value error, must be a time in the years 2000 to 2200",
        ),
        (
            of_json('{"parameters": {"prompt": "x"}, "start_at": "0001-01-01T00:00:00+23:59"}'),
            "start_at",
        ),
        (with_fields(labels={str(n): "" for n in range(17)}), "labels"),
        (with_fields(labels={"": ""}), "labels"),
        (with_fields(labels={"n" * 64: ""}), "labels"),
        (with_fields(labels={"n": "v" * 256}), "labels.n"),
        (with_fields(predecessor_id="0" * 101), "predecessor_id"),
        (with_fields(predecessor_id="a\n"), "predecessor_id"),
        (with_options("[" + ",".join(["1e15"] * 200_000) + "]"), "larger than 65,536 bytes"),
        (with_options(json.dumps("x" * MAX_OPTIONS_BYTES)), "larger than 65,536 bytes"),
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


def test_largest_input_that_is_read_fits_where_it_goes_on() -> None:
    """Characters that JSON has to escape are the longest."""
    text = "\x01" * MAX_PROMPT_LENGTH
    request = image_request(
        parameters={
            "prompt": text,
            "negative_prompt": text,
            "engine_options": {"a": "x" * (MAX_OPTIONS_BYTES - 8)},
        },
        labels={f"{n:063}": "\x01" * 255 for n in range(16)},
    )
    [payload] = CONVERTER.to_payloads([request])
    assert MAX_REQUEST_BYTES * 0.7 < len(payload.data) < MAX_REQUEST_BYTES
    assert read_input(raw(payload), CONVERTER) == request


def test_times_are_told_in_utc() -> None:
    request = image_request(start_at="2030-06-01T12:00:00+02:00")
    assert request.start_at == datetime(2030, 6, 1, 10, tzinfo=UTC)
    assert request.start_at.utcoffset() == timedelta(0)


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


SHA256 = "0f" * 32
STORED: dict[str, object] = {
    "key": f"jobs/x/{SHA256}.png",
    "sha256": SHA256,
    "media_type": "image/png",
    "byte_size": 1,
    "width": 64,
    "height": 64,
}
MOVED = {"percent": 1, "step": 1, "total_steps": 9, "phase": "step", "at": "2026-01-01T00:00:00Z"}


def is_believed(**fields: object) -> bool:
    """Whether job x takes this for the result of its attempt."""
    payload = of_json(json.dumps({"worker": "w"} | fields))
    result = read_result(RawValue(payload), CONVERTER, "w")
    return isinstance(result, WorkResult) and not is_made_up(result, "x")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"media_type": "image/jpeg", "key": f"jobs/x/{SHA256}.jpg"},
        {"media_type": "image/webp", "key": f"jobs/x/{SHA256}.webp"},
    ],
)
def test_image_under_its_own_hash_is_believed(fields: dict[str, object]) -> None:
    assert is_believed(artifact=STORED | fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "../../etc/passwd"},
        {"key": "x" * 1_900_000},
        {"key": f"jobs/y/{SHA256}.png"},
        {"key": f"jobs/x/{SHA256}.jpg"},
        {"key": f"jobs/x/{SHA256}.png\n"},
        {"sha256": f"{SHA256}\r\n", "key": f"jobs/x/{SHA256}\r\n.png"},
        {"sha256": SHA256.upper(), "key": f"jobs/x/{SHA256.upper()}.png"},
        {"sha256": "00", "key": "jobs/x/00.png"},
        {"media_type": "text/html", "key": f"jobs/x/{SHA256}.None"},
        {"media_type": "text/html\r\n"},
        {"byte_size": 0},
        {"byte_size": 10**30},
        {"width": -1},
        {"height": 10**9},
    ],
)
def test_image_that_no_attempt_can_have_stored_is_not_believed(fields: dict[str, object]) -> None:
    assert not is_believed(artifact=STORED | fields)


@pytest.mark.parametrize(
    ("name", "text", "believed"),
    [("a", "b" * 1000, True), ("a", "b" * 1001, False), ("a" * 1001, "b", False)],
)
def test_only_provenance_that_a_label_can_hold_is_believed(
    name: str, text: str, believed: bool
) -> None:
    told = {"aigc": {"Label": "1", name: text}}
    assert is_believed(artifact=STORED, provenance=told) is believed


@pytest.mark.parametrize(
    ("key", "step", "believed"),
    [
        ("checkpoints/x/1-5", 5, True),
        ("checkpoints/x/1-5", 4, False),
        ("checkpoints/y/1-5", 5, False),
        ("checkpoints/x/../y/1-5", 5, False),
        ("checkpoints/x/1-5\n", 5, False),
        ("checkpoints/x/1--5", -5, False),
        ("checkpoints/x/1-" + "0" * 300 + "5", 5, False),
    ],
)
def test_only_a_checkpoint_of_the_jobs_own_is_believed(key: str, step: int, believed: bool) -> None:
    assert is_believed(stopped="pause", checkpoint={"key": key, "step": step}) is believed


@pytest.mark.parametrize(
    "fields",
    [
        {"note": "x" * 100_000},
        {"worker": "x" * 100_000},
        {"progress": MOVED | {"at": "9999-12-31T23:59:59-23:59"}},
        {"progress": MOVED | {"at": "2026-01-01T00:00:00"}},
        {"progress": MOVED | {"step": 10**30}},
        {"progress": MOVED | {"step": -1}},
    ],
)
def test_result_with_absurd_fields_is_not_believed(fields: dict[str, object]) -> None:
    assert is_believed(artifact=STORED, progress=MOVED)
    assert not is_believed(**{"artifact": STORED} | fields)


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
