"""Cancel, pause and resume while no workflow worker hears anything: every state, every wish."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskFailedRequest,
)
from temporalio.client import Client, WorkflowHandle

from activities.artifacts import LocalArtifactStore
from activities.models import GenerationParameters
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import job, problem
from workflows.job_record import JobRecord, initial_memo
from workflows.messages import ImageJobInput
from workflows.names import workflow_id_for
from workflows.state_machine import JobEvent, JobState

PATHS = {
    "PENDING": [],
    "PROCESSING": [JobEvent.START],
    "STOPPING": [JobEvent.START],
    "PAUSED": [JobEvent.START, JobEvent.PAUSE],
}
# What a call answers: status, wish that is then shown, and whether a signal was needed for it.
Answer = tuple[int, str | None, bool]
FREE: dict[str, Answer] = {
    "cancel": (202, "cancel", True),
    "pause": (202, "pause", True),
    "resume": (409, None, False),
}
PAUSING = FREE | {"pause": (202, "pause", False), "resume": (200, None, True)}
# The attempt was told to stop: a resume can only follow, and may have been heard already.
STOPPING = FREE | {"pause": (202, "pause", True), "resume": (202, "resume", True)}
STOPPING_AGAIN = STOPPING | {"pause": (202, "pause", False)}
STOPPING_TO_GO_ON = STOPPING | {"resume": (202, "resume", False)}
HELD = FREE | {"pause": (200, None, False), "resume": (202, "resume", True)}
RESUMING = FREE | {"pause": (200, None, True), "resume": (202, "resume", False)}
CANCELLING: dict[str, Answer] = {
    "cancel": (202, "cancel", False),
    "pause": (409, "cancel", False),
    "resume": (409, "cancel", False),
}
STANDINGS: list[tuple[str, str, dict[str, Answer]]] = [
    *((state, "", FREE) for state in ("PENDING", "PROCESSING")),
    *((state, "pause", PAUSING) for state in ("PENDING", "PROCESSING")),
    *((state, "resume", FREE) for state in ("PENDING", "PROCESSING")),
    *((state, "pause resume", FREE) for state in ("PENDING", "PROCESSING")),
    *((state, "resume pause", PAUSING) for state in ("PENDING", "PROCESSING")),
    ("STOPPING", "", STOPPING),
    ("STOPPING", "pause", STOPPING_AGAIN),
    ("STOPPING", "resume", STOPPING_TO_GO_ON),
    ("STOPPING", "pause resume", STOPPING_TO_GO_ON),
    ("STOPPING", "resume pause", STOPPING_AGAIN),
    ("PAUSED", "", HELD),
    ("PAUSED", "pause", HELD),
    ("PAUSED", "resume", RESUMING),
    ("PAUSED", "pause resume", RESUMING),
    ("PAUSED", "resume pause", HELD),
    ("PAUSED", "nonsense", HELD),
    *((state, "cancel", CANCELLING) for state in PATHS),
    *((state, "cancel resume", CANCELLING) for state in PATHS),
    *((state, "pause cancel", CANCELLING) for state in PATHS),
    *((state, "native", CANCELLING) for state in PATHS),
]


async def start(
    client: Client,
    standing: str,
    events: Sequence[JobEvent] | None = None,
    task_queue: str = "darkroom",
) -> WorkflowHandle[Any, Any]:
    """A job whose record was written by a worker that is no more."""
    request = ImageJobInput(parameters=GenerationParameters(prompt="a"))
    job_id, now = uuid4().hex, datetime.now(UTC)
    record = JobRecord(job_id, now, request)
    for event in PATHS[standing] if events is None else events:
        record.apply(event, at=now, source="operator", message="a test")
    if standing == "STOPPING":
        record.update(pending_request="pause")
    return await client.start_workflow(
        "ImageJobWorkflow",
        id=workflow_id_for(job_id),
        task_queue=task_queue,
        memo=initial_memo(request) | record.changed_memo(),
    )


def path_of(handle: WorkflowHandle[Any, Any]) -> str:
    return f"/v1/jobs/{handle.id.removeprefix('job-')}"


async def signals_of(handle: WorkflowHandle[Any, Any]) -> list[str]:
    return [
        event.workflow_execution_signaled_event_attributes.signal_name
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    ]


@pytest.mark.parametrize("call", ["cancel", "pause", "resume"])
@pytest.mark.parametrize(("standing", "unheard", "answers"), STANDINGS)
async def test_answer_counts_what_nobody_has_heard(
    deserted: httpx.AsyncClient,
    deserted_client: Client,
    standing: str,
    unheard: str,
    answers: dict[str, Answer],
    call: str,
) -> None:
    handle = await start(deserted_client, standing)
    for signal in unheard.split():
        await (handle.cancel() if signal == "native" else handle.signal(signal))
    before = await signals_of(handle)
    links = job(await deserted.get(path_of(handle)), 200)["links"]
    begun = time.monotonic()
    response = await deserted.post(f"{path_of(handle)}/{call}")
    took = time.monotonic() - begun
    status, wish, is_sent = answers[call]
    if status == 409:
        problem(response, 409, "ILLEGAL_TRANSITION")
        assert call not in links
    else:
        assert call in links or not is_sent
        assert job(response, status)["pending_request"] == wish
    assert await signals_of(handle) == before + [call] * is_sent
    told = job(await deserted.get(path_of(handle)), 200)
    assert told["pending_request"] == wish
    # Nobody is there for whom it would be worth while to wait.
    assert took < 1.5
    await handle.terminate()


async def test_signal_is_sent_while_a_frozen_worker_hides_those_before_it(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    service, namespace, queue = deserted_client.workflow_service, "default", uuid4().hex
    handle = await start(deserted_client, "PAUSED", task_queue=queue)
    await handle.signal("resume")
    task = await service.poll_workflow_task_queue(
        PollWorkflowTaskQueueRequest(namespace=namespace, task_queue=TaskQueue(name=queue))
    )
    held = job(await deserted.post(f"{path_of(handle)}/pause"), 200, JobState.PAUSED)
    assert held["pending_request"] is None
    # Temporal keeps the pause back until the task is over, and shows only the resume before it.
    resumed = job(await deserted.post(f"{path_of(handle)}/resume"), 202, JobState.PAUSED)
    assert resumed["pending_request"] == "resume"
    await service.respond_workflow_task_failed(
        RespondWorkflowTaskFailedRequest(namespace=namespace, task_token=task.task_token)
    )
    assert await signals_of(handle) == ["resume", "pause", "resume"]
    await handle.terminate()


async def test_job_that_was_paused_as_often_as_it_may_be_is_not_asked_again(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    events = [JobEvent.PAUSE, JobEvent.RESUME] * 100
    handle = await start(deserted_client, "PENDING", events)
    told = problem(await deserted.post(f"{path_of(handle)}/pause"), 409, "ILLEGAL_TRANSITION")
    assert "100 times" in told["detail"]
    assert await signals_of(handle) == []
    await handle.terminate()


async def test_job_that_takes_no_more_signals_can_still_be_cancelled(
    sparing: Client, store: LocalArtifactStore
) -> None:
    handle = await start(sparing, "PAUSED")
    async with asking(create_app(sparing, store, ApiSettings())) as api:
        for call in ("resume", "pause"):
            await api.post(f"{path_of(handle)}/{call}")
        told = problem(await api.post(f"{path_of(handle)}/resume"), 409, "SIGNALS_USED_UP")
        assert told["current_state"] == "PAUSED"
        amended = await api.patch(path_of(handle), json={"priority": 9})
        problem(amended, 409, "SIGNALS_USED_UP")
        for _ in range(2):
            answer = job(await api.post(f"{path_of(handle)}/cancel"), 202)
            assert answer["pending_request"] == "cancel"
        assert (await api.get(path_of(handle))).json()["pending_request"] == "cancel"
    assert await signals_of(handle) == ["resume", "pause"]
