"""What the workflow tests share: queues of their own, workers, conditions, and a last look.

The last look is at the history of every job of a test: no workflow task may have failed, which
would be a defect even if the job came to a good end, and each history must replay.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowHistory,
)
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker

from activities.ownership import TemporalOwnership
from tests.fakes import Behaviour, FakeRemoval, FakeWork
from tests.servers import TEMPORAL
from tests.workflows.pure import image_request
from workflows.bulk import BulkWorkflow
from workflows.chain import removal_id
from workflows.deciding import workflow_worker
from workflows.delivery import CallbackWorkflow
from workflows.image_job import ImageJobWorkflow
from workflows.messages import JobOutcome, JobView
from workflows.names import POSTPROCESS_TASK_QUEUE, generate_task_queue, job_id_of, workflow_id_for
from workflows.reading import JobReader
from workflows.state_machine import JobState
from workflows.submission import start_job

_THROTTLE = timedelta(milliseconds=100)

JobHandle = WorkflowHandle[object, JobOutcome]


class Stage:
    """A task queue and an engine that no other test uses, and the jobs that run there."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.reader = JobReader(client)
        self.task_queue = f"darkroom-{uuid4().hex[:8]}"
        self.engine = f"e{uuid4().hex[:8]}"
        self.handles: list[WorkflowHandle[Any, Any]] = []

    async def start(self, **fields: object) -> JobHandle:
        """Start a job of this stage's engine."""
        request = image_request(**{"engine": self.engine} | fields)
        handle = await start_job(self.client, uuid4().hex, request, task_queue=self.task_queue)
        self.handles.append(handle)
        return handle

    async def start_raw(self, *args: object, workflow_id: str | None = None) -> JobHandle:
        """Start a workflow with any arguments under any id."""
        handle = await self.client.start_workflow(
            "ImageJobWorkflow",
            args=args,
            id=workflow_id or f"job-{uuid4().hex}",
            task_queue=self.task_queue,
            result_type=JobOutcome,
        )
        self.handles.append(handle)
        return handle

    def deciding(self, *activities: Callable[..., Any]) -> Worker:
        """A workflow worker, sandbox on, as `worker.py` has one, with these light activities."""
        return workflow_worker(self.client, activities, task_queue=self.task_queue)

    def work(self, behaviour: Behaviour) -> FakeWork:
        """A work activity that claims as the real one does, and then behaves as told."""
        return FakeWork(TemporalOwnership(self.client), behaviour)

    def working(self, work: FakeWork, slots: int = 5) -> Worker:
        """An activity worker for this stage's engine."""
        return Worker(
            self.client,
            task_queue=generate_task_queue(self.engine),
            activities=[work.generate_image],
            max_concurrent_activities=slots,
            max_heartbeat_throttle_interval=_THROTTLE,
            default_heartbeat_throttle_interval=_THROTTLE,
            disable_eager_activity_execution=True,
        )

    def removing(self, work: FakeWork, slots: int = 5) -> Worker:
        """An activity worker for removals; all stages share its queue."""
        return Worker(
            self.client,
            task_queue=POSTPROCESS_TASK_QUEUE,
            activities=[FakeRemoval(work).remove_watermark],
            max_concurrent_activities=slots,
            max_heartbeat_throttle_interval=_THROTTLE,
            default_heartbeat_throttle_interval=_THROTTLE,
            disable_eager_activity_execution=True,
        )

    def successor(self, handle: WorkflowHandle[Any, Any]) -> WorkflowHandle[Any, Any]:
        """The removal that follows a job, which ends with the test as the job does."""
        successor_id = removal_id(job_id_of(handle.id) or "")
        successor = self.client.get_workflow_handle(workflow_id_for(successor_id))
        self.handles.append(successor)
        return successor

    async def view(self, handle: WorkflowHandle[Any, Any]) -> JobView:
        """The job as any reader sees it."""
        return await self.reader.read(job_id_of(handle.id) or "")

    async def until(
        self,
        handle: WorkflowHandle[Any, Any],
        state: JobState,
        condition: Callable[[JobView], bool] = lambda _: True,
    ) -> JobView:
        """Wait for a state, and a further condition if one is given."""
        view = await self.view(handle)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                while view.state is not state or not condition(view):
                    await asyncio.sleep(0.02)
                    view = await self.view(handle)
        assert view.state is state, (view.state, view.transitions)
        assert condition(view), view
        return view

    async def until_no_attempt(self, handle: WorkflowHandle[Any, Any]) -> None:
        """Wait until the server has the result of the running attempt."""

        async def has_none() -> bool:
            return not (await handle.describe()).raw_description.pending_activities

        await until(has_none)

    async def until_decided(self, handle: WorkflowHandle[Any, Any]) -> None:
        """Wait until the workflow has acted on all that the server knows."""

        async def has_decided() -> bool:
            raw = (await handle.describe()).raw_description
            return not raw.HasField("pending_workflow_task")

        await until(has_decided)

    async def cli(self, *words: str) -> str:
        """Run the `temporal` program; returns what it says."""
        process = await asyncio.create_subprocess_exec(
            str(TEMPORAL),
            *words,
            "--address",
            self.client.service_client.config.target_host,
            "--disable-config-file",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        return output.decode()

    async def close(self) -> None:
        """End what still runs, and look at every history."""
        for handle in self.handles:
            with contextlib.suppress(RPCError):
                await handle.terminate(reason="the test is over")
            history = await handle.fetch_history()
            assert not any(map(is_failed_task, history.events)), history.to_json()
            await replay(history)


def count(history: WorkflowHistory, kind: "EventType.ValueType") -> int:
    """How many events of a kind there are."""
    return sum(event.event_type == kind for event in history.events)


def is_failed_task(event: HistoryEvent) -> bool:
    """Whether a workflow task failed by a fault of the workflow's.

    A signal that arrives while a run closes makes the server refuse the closing task, once, so
    that the signal is seen; a termination cuts a task short; a reset begins with one that failed.
    All are as they should be.
    """
    cause = event.workflow_task_failed_event_attributes.cause
    return event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED and cause not in (
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW,
    )


async def replay(history: WorkflowHistory) -> None:
    """Run the workflow over the history; raises unless it decides the same again."""
    replayer = Replayer(
        workflows=[ImageJobWorkflow, BulkWorkflow, CallbackWorkflow],
        data_converter=pydantic_data_converter,
    )
    await replayer.replay_workflow(history)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for anything else."""
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.02)


async def until_any_has_moved(handles: Sequence[JobHandle]) -> None:
    """Return as soon as one of the jobs has got further, or none can."""
    lengths = [(await handle.describe()).history_length for handle in handles]

    async def has_moved() -> bool:
        described = [await handle.describe() for handle in handles]
        is_over = all(one.status is not WorkflowExecutionStatus.RUNNING for one in described)
        return is_over or [one.history_length for one in described] != lengths

    await until(has_moved)


def events_of(view: JobView) -> list[str]:
    """The events of a job so far."""
    return [transition.event.value for transition in view.transitions]
