"""What receivers are told of a job: which events, and what is in them. Pure."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.errors import ErrorKind
from activities.models import RemovalTask
from tests.fakes import FAKE_ARTIFACT
from tests.workflows.pure import SUCCEEDED, Clock, claim, failure, new_job
from workflows.callbacks import Message, all_messages, delivery_prefix, receivers
from workflows.ends import end_attempt
from workflows.job import Job
from workflows.messages import JobView

URL = "https://example.com/hook"


def finished(clock: Clock | None = None, **fields: object) -> Job:
    """A job that succeeded."""
    job = new_job(clock or Clock(), **fields)
    claim(job)
    end_attempt(job, SUCCEEDED)
    return job


def told(view: JobView) -> list[tuple[str, str]]:
    """Who is told what."""
    return [(message.receiver, message.type) for message in all_messages(view)]


def body(message: Message) -> dict[str, Any]:
    """What its receiver reads."""
    read: dict[str, Any] = json.loads(message.body)
    return read


def test_nobody_is_told_of_a_job_without_receivers() -> None:
    job = finished()
    assert receivers(job.record.request) == ()
    assert all_messages(job.record.view()) == []
    assert receivers(None) == ()


def test_final_state_alone_is_told_unless_all_was_asked_for() -> None:
    view = finished(callback_url=URL).record.view()
    assert told(view) == [("url", "job.success")]
    view = finished(callback_url=URL, callback_events="all").record.view()
    assert told(view) == [("url", "job.processing"), ("url", "job.success")]


def test_job_and_tenant_each_have_a_receiver_with_wishes_of_its_own() -> None:
    view = finished(callback_url=URL, endpoint_events="all").record.view()
    assert told(view) == [
        ("endpoint", "job.processing"),
        ("url", "job.success"),
        ("endpoint", "job.success"),
    ]
    own, endpoint = all_messages(view)[1:]
    assert own.id == endpoint.id
    assert own.body == endpoint.body
    assert own.workflow_id != endpoint.workflow_id
    assert (own.url, endpoint.url) == (URL, None)


def test_event_tells_state_reason_and_links_and_no_bytes() -> None:
    job = finished(
        callback_url=URL,
        labels={"order": "17"},
        links_base="https://api.example.com/darkroom",
        watermark="remove",
        label_terms_accepted=True,
    )
    event = body(all_messages(job.record.view())[0])
    address = "https://api.example.com/darkroom/v1/jobs/x"
    assert event["type"] == "job.success"
    assert event["timestamp"] == "2026-01-01T00:00:00Z"
    assert event["data"]["transition"] == {
        "sequence": 2,
        "at": "2026-01-01T00:00:00Z",
        "from_state": "PROCESSING",
        "to_state": "SUCCESS",
        "event": "COMPLETE",
        "source": "worker:fake",
        "message": "the image is stored",
    }
    assert event["data"]["result"] == {
        "image_url": f"{address}/image",
        "sha256": "00",
        "media_type": "image/png",
        "width": 64,
        "height": 64,
        "byte_size": 1,
        "seed": 7,
    }
    assert event["data"]["labels"] == {"order": "17"}
    assert event["data"]["successor_id"] == "x-removal"
    assert event["data"]["links"] == {"self": address}
    assert (event["data"]["done"], event["data"]["error"]) == (True, None)


def test_failure_is_told_with_its_error() -> None:
    job = new_job(Clock(), callback_url=URL)
    claim(job)
    end_attempt(job, failure(ErrorKind.CONTENT_REJECTED, "not allowed"))
    [message] = all_messages(job.record.view())
    data = body(message)["data"]
    assert message.type == "job.failed"
    assert data["error"] == {
        "kind": "CONTENT_REJECTED",
        "message": "not allowed",
        "retryable": False,
    }
    assert data["result"] is None


def test_what_was_told_earlier_is_the_same_in_every_byte_when_the_job_is_over() -> None:
    clock = Clock()
    job = new_job(clock, callback_url=URL, callback_events="all")
    claim(job)
    earlier = all_messages(job.record.view())
    clock.pass_seconds(3)
    end_attempt(job, SUCCEEDED)
    assert all_messages(job.record.view())[: len(earlier)] == earlier


def test_ids_differ_between_events_jobs_and_ends() -> None:
    clock = Clock()
    job = new_job(clock, callback_url=URL, callback_events="all")
    claim(job)
    end_attempt(job, failure(ErrorKind.CONTENT_REJECTED))
    ids = [message.id for message in all_messages(job.record.view())]
    assert ids == ["x.1-processing", "x.2-failed"]
    other = finished(callback_url=URL, callback_events="all")
    assert [message.id for message in all_messages(other.record.view())][1] == "x.2-success"


def test_removal_that_is_run_again_tells_with_other_ids() -> None:
    def ids(asked_at: datetime) -> list[str]:
        task = RemovalTask(source=FAKE_ARTIFACT, label=None, asked_by="api:x", asked_at=asked_at)
        job = finished(callback_url=URL)
        removal = {"type": "WATERMARK_REMOVAL", "removal": task, "predecessor_id": "x"}
        request = job.request.model_copy(update=removal)
        view = job.record.view().model_copy(update={"request": request})
        return [message.id for message in all_messages(view)]

    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert ids(at) == ids(at)
    assert ids(at) != ids(at + timedelta(milliseconds=1))


@pytest.mark.parametrize("other", ["x-removal", "x1", "y"])
def test_deliveries_of_a_job_begin_as_no_other_jobs_do(other: str) -> None:
    view = finished(callback_url=URL).record.view()
    [own] = all_messages(view)
    [others] = all_messages(view.model_copy(update={"id": other}))
    assert own.workflow_id.startswith(delivery_prefix("x"))
    assert not others.workflow_id.startswith(delivery_prefix("x"))
