"""Running an activity under a real server, with a workflow that does as it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from tests.activities.probe_workflow import ProbeInput, ProbeWorkflow


@dataclass
class Probe:
    """Queues of its own on the session's server."""

    client: Client
    workflow_queue: str
    activity_queue: str

    async def start(self, activity: str, argument: Any = None) -> WorkflowHandle[Any, Any]:
        """Start a workflow with this activity."""
        return await self.client.start_workflow(
            ProbeWorkflow.run,
            ProbeInput(activity=activity, task_queue=self.activity_queue, argument=argument),
            id=f"probe-{uuid4()}",
            task_queue=self.workflow_queue,
            task_timeout=timedelta(seconds=2),
        )

    def workflow_worker(self) -> Worker:
        """A worker that decides."""
        return Worker(
            self.client,
            task_queue=self.workflow_queue,
            workflows=[ProbeWorkflow],
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        )

    def activity_worker(self, activities: Sequence[Callable[..., Any]]) -> Worker:
        """A worker that works, with the heartbeats of ours."""
        return Worker(
            self.client,
            task_queue=self.activity_queue,
            activities=activities,
            max_heartbeat_throttle_interval=timedelta(milliseconds=100),
            graceful_shutdown_timeout=timedelta(seconds=10),
        )


@asynccontextmanager
async def probing(client: Client, *activities: Callable[..., Any]) -> AsyncIterator[Probe]:
    """Both workers are running inside."""
    probe = Probe(client, f"probe-{uuid4()}", f"probe-work-{uuid4()}")
    async with probe.workflow_worker(), probe.activity_worker(activities):
        yield probe


async def result_of(handle: WorkflowHandle[Any, Any], seconds: float = 20) -> Any:
    """What the workflow returns, in time."""
    async with asyncio.timeout(seconds):
        return await handle.result()
