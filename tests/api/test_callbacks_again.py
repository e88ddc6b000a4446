"""Callbacks that are asked for again and again, by whoever likes to."""

from datetime import UTC, datetime
from uuid import uuid4

import httpx
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.models import GenerationParameters
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import problem
from workflows.job_record import JobRecord, initial_memo
from workflows.messages import ImageJobInput
from workflows.names import workflow_id_for
from workflows.state_machine import JobEvent


async def start_cancelled(client: Client) -> str:
    """A job with a receiver that is over, in the words of its memo; returns its id."""
    request = ImageJobInput(
        parameters=GenerationParameters(prompt="a"), callback_url="https://example.com/hook"
    )
    job_id, now = uuid4().hex, datetime.now(UTC)
    record = JobRecord(job_id, now, request)
    record.apply(JobEvent.CANCEL, at=now, source="operator", message="a test")
    await client.start_workflow(
        "ImageJobWorkflow",
        id=workflow_id_for(job_id),
        task_queue="darkroom",
        memo=initial_memo(request) | record.changed_memo(),
    )
    return job_id


async def test_delivery_that_takes_no_more_signals_says_so(
    sparing: Client, store: LocalArtifactStore
) -> None:
    job_id = await start_cancelled(sparing)
    final = f"/v1/jobs/{job_id}/callbacks/redeliver"
    one = f"/v1/jobs/{job_id}/callbacks/{job_id}.1-cancelled/redeliver"
    async with asking(create_app(sparing, store, ApiSettings())) as api:
        taken: list[httpx.Response] = [await api.post(path) for path in (final, one)]
        assert [answer.status_code for answer in taken] == [202, 202]
        for path in (final, one):
            problem(await api.post(path), 409, "REDELIVERED_TOO_OFTEN")
