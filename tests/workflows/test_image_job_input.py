"""Whatever a job is started with, by whatever hand, it ends or it becomes readable."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tests.workflows.behaviours import succeed
from tests.workflows.pure import image_request
from tests.workflows.stage import JobHandle, Stage, events_of, is_failed_task, until
from workflows.messages import JobView
from workflows.presentation import static_summary
from workflows.search_attributes import JOB_ENGINE, JOB_PRIORITY, JOB_STATE, JOB_TENANT, JOB_TYPE
from workflows.state_machine import JobState

PROMPT = {"parameters": {"prompt": "x"}}
# Of 0.99 MB, and 3.8 MB when it is written again.
NUMBERS = ",".join(["1e15"] * 198_000)
GROWING = b'{"parameters": {"prompt": "x", "engine_options": {"a": [%s]}}}' % NUMBERS.encode()


def raw(encoding: bytes, content: bytes) -> RawValue:
    """An argument as no client of ours would send it."""
    return RawValue(Payload(metadata={"encoding": encoding}, data=content))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "a job takes one input, an object; 0 were given"),
        ([PROMPT, PROMPT], "a job takes one input, an object; 2 were given"),
        ([None], "not JSON"),
        ([17], "input"),
        (["a lake"], "input"),
        ([{"prompt": "x"}], "parameters: Field required"),
        ([{"parameters": {"prompt": "x", "width": 10**12}}], "parameters.width"),
        ([PROMPT | {"timeout_seconds": 1e300}], "timeout_seconds"),
        ([PROMPT | {"start_at": "2030-01-01T00:00:00"}], "start_at"),
        ([PROMPT | {"labels": {str(n): n for n in range(5000)}}], "labels.0"),
        ([PROMPT | {"start_at": "9999-12-31T23:59:59-23:59"}], "start_at"),
        ([raw(b"json/plain", GROWING)], "not be larger than 65,536 bytes of JSON"),
        ([b"\x00\x01"], "not JSON"),
        ([raw(b"binary/zipped", b"?")], "not JSON"),
        ([raw(b"json/plain", b"{")], "input"),
        ([raw(b"json/plain", b'"' + b"x" * 1_500_000 + b'"')], "larger than 1,048,576 bytes"),
    ],
)
async def test_absurd_input_fails_the_job_in_clear_words(
    stage: Stage, args: list[Any], words: str
) -> None:
    async with stage.deciding():
        handle = await stage.start_raw(*args)
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "INVALID_PARAMETERS"
    assert words in caught.value.cause.message
    view = await stage.view(handle)
    assert (view.state, events_of(view)) == (JobState.FAILED, ["FAIL"])
    assert view.transitions[0].source == "watchdog"
    assert view.status.error is not None
    assert words in view.status.error.message


async def test_wrong_workflow_id_fails_the_run_and_says_what_an_id_is(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start_raw(PROMPT, workflow_id=f"My Job {uuid4()}")
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
    assert "a job's workflow id is job-<id>" in str(caught.value.cause)
    assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED


async def test_claim_of_an_unreadable_job_wedges_nothing(stage: Stage) -> None:
    handle = await stage.start_raw(17)
    claim = asyncio.create_task(
        handle.execute_update("claim", {"dispatch": 0, "worker": "early"}, id="claim-0")
    )
    await handle.signal("pause")
    async with stage.deciding():
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        await asyncio.wait([claim])
    assert claim.exception() is not None


async def test_workflow_type_of_another_build_is_left_alone(stage: Stage) -> None:
    """A newer worker may know the type, so the task fails and the run does not."""
    async with stage.deciding():
        handle = await stage.client.start_workflow(
            "NewerJobWorkflow", id=f"job-{uuid4().hex}", task_queue=stage.task_queue
        )

        async def has_failed() -> bool:
            return any(map(is_failed_task, (await handle.fetch_history()).events))

        await until(has_failed)
        assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        await handle.terminate()


async def test_large_input_within_the_limit_is_worked_on(stage: Stage) -> None:
    parameters = {"prompt": "x", "engine_options": {"graph": "x" * 60_000}}
    work = stage.work(succeed)
    async with stage.deciding(), stage.working(work):
        handle = await stage.start_raw({"parameters": parameters, "engine": stage.engine})
        await handle.result()
    assert (await stage.view(handle)).state is JobState.SUCCESS
    assert len(work.inputs[0].parameters.engine_options["graph"]) == 60_000


async def test_job_started_by_the_cli_is_as_readable_as_any_other(stage: Stage) -> None:
    workflow_id = f"job-{uuid4().hex}"
    request = json.dumps(PROMPT | {"engine": stage.engine, "priority": 7, "tenant": "anne"})
    async with stage.deciding():
        await stage.cli(
            *("workflow", "start", "--type", "ImageJobWorkflow", "--workflow-id", workflow_id),
            *("--task-queue", stage.task_queue, "--input", request),
        )
        handle: Any = stage.client.get_workflow_handle(workflow_id)
        stage.handles.append(handle)
        view = await stage.until(handle, JobState.PENDING, lambda v: v.request is not None)
        assert view.request is not None
        assert view.request.parameters.prompt == "x"
        attributes = (await handle.describe()).typed_search_attributes
        assert attributes[JOB_STATE] == "PENDING"
        assert attributes[JOB_TYPE] == "TEXT_TO_IMAGE"
        assert attributes[JOB_ENGINE] == stage.engine
        assert attributes[JOB_TENANT] == "anne"
        assert attributes[JOB_PRIORITY] == 7
        async with stage.working(stage.work(succeed)):
            await handle.result()
    view = await stage.view(handle)
    assert events_of(view) == ["START", "COMPLETE"]
    assert view.request is not None


@pytest.mark.parametrize("memo", ['request="junk"', r'request="\ud800"', 'transition-0007={"a":1}'])
@pytest.mark.parametrize("prompt", ['"x"', "17"])
async def test_memo_of_a_job_started_by_hand_says_what_its_input_says(
    stage: Stage, memo: str, prompt: str
) -> None:
    workflow_id = f"job-{uuid4().hex}"
    request = f'{{"parameters": {{"prompt": {prompt}}}, "engine": "{stage.engine}"}}'
    async with stage.deciding():
        await stage.cli(
            *("workflow", "start", "--type", "ImageJobWorkflow", "--workflow-id", workflow_id),
            *("--task-queue", stage.task_queue, "--input", request, "--memo", memo),
        )
        handle: Any = stage.client.get_workflow_handle(workflow_id)
        stage.handles.append(handle)
        await stage.until_decided(handle)
        view = await stage.view(handle)
    assert view.state is (JobState.PENDING if prompt == '"x"' else JobState.FAILED)
    assert (view.request is not None) == (prompt == '"x"')
    assert events_of(view) == ([] if prompt == '"x"' else ["FAIL"])


async def test_job_that_the_cli_started_with_an_absurd_input_reads_as_failed(
    stage: Stage,
) -> None:
    workflow_id = f"job-{uuid4().hex}"
    async with stage.deciding():
        await stage.cli(
            *("workflow", "start", "--type", "ImageJobWorkflow", "--workflow-id", workflow_id),
            *("--task-queue", stage.task_queue, "--input", '{"prompt": "x"}'),
        )
        handle: Any = stage.client.get_workflow_handle(workflow_id)
        stage.handles.append(handle)
        view = await stage.until(handle, JobState.FAILED)
    assert view.status.error is not None
    assert view.status.error.kind == "INVALID_PARAMETERS"
    assert view.request is None


async def test_query_view_tells_what_the_memo_tells(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await handle.signal("pause")
        read = await stage.until(handle, JobState.PAUSED)
        asked = await handle.query("view", result_type=JobView)
    for part in ("id", "state", "request", "status", "transitions", "created_at", "updated_at"):
        assert getattr(asked, part) == getattr(read, part)


async def test_query_view_answers_for_a_job_nobody_could_read(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start_raw(17)
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        asked = await handle.query("view", result_type=JobView)
    assert (asked.state, asked.request) == (JobState.FAILED, None)


async def test_summary_and_current_details_are_there_for_people(stage: Stage) -> None:
    async with stage.deciding():
        handle = await stage.start()
        await handle.signal("resume")
        await stage.until_decided(handle)
        description = await handle.describe()
        details = await stage.cli("workflow", "metadata", "--workflow-id", handle.id)
    assert await description.static_summary() == static_summary(image_request(engine=stage.engine))
    assert "**PENDING** since" in details
    assert "RESUME was refused: the job is PENDING; allowed now: START" in details


async def scheduled_attempts(handle: JobHandle) -> list[HistoryEvent]:
    """The events by which attempts were scheduled."""
    return [
        event
        for event in (await handle.fetch_history()).events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]


async def test_attempt_has_a_summary_in_the_history(stage: Stage) -> None:
    async with stage.deciding(), stage.working(stage.work(succeed)):
        handle = await stage.start()
        await handle.result()
    [scheduled] = await scheduled_attempts(handle)
    assert json.loads(scheduled.user_metadata.summary.data) == "attempt 1 of 3"


async def test_time_without_any_workflow_worker_counts_as_queue_time(stage: Stage) -> None:
    handle = await stage.start(queue_timeout_seconds=3600)
    created_at = (await stage.view(handle)).created_at
    await asyncio.sleep(1)  # nobody is there for whose sake a condition could be waited for
    async with stage.deciding():
        await stage.until_decided(handle)
        asked = await handle.query("view", result_type=JobView)
    assert asked.created_at == created_at
    [scheduled] = await scheduled_attempts(handle)
    limit = scheduled.activity_task_scheduled_event_attributes.schedule_to_start_timeout
    assert limit.ToTimedelta().total_seconds() <= 3599
