"""Who is there to work: told by worker heartbeats, because a busy worker doesn't poll."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import TaskQueueType, WorkerStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkersRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from workflows.client import WORKER_HEARTBEAT_INTERVAL

# Two heartbeats may be late before a worker counts as gone.
HEARTBEAT_AGE = 2 * WORKER_HEARTBEAT_INTERVAL + timedelta(seconds=2)
# A worker that has just started polls before its first heartbeat is due.
_POLL_AGE = WORKER_HEARTBEAT_INTERVAL + timedelta(seconds=1)
# However many clients poll their jobs, Temporal is asked once a second for each queue.
_CACHE_SECONDS = 1.0


@dataclass(frozen=True)
class QueuePresence:
    """A task queue at one moment. `backlog` counts waiting tasks by Temporal's priority key."""

    is_served: bool
    backlog: dict[int, int]

    def ahead_of(self, priority_key: int) -> int:
        """About how many tasks of this and of higher priorities are waiting."""
        return sum(count for key, count in self.backlog.items() if key <= priority_key)


class Presence:
    """Looks at task queues, and remembers for a second."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen: dict[tuple[str, int], tuple[float, QueuePresence]] = {}

    async def of_workflows(self, task_queue: str, *, is_fresh: bool = False) -> QueuePresence:
        """Who decides. `is_fresh`: as it is now, not as it was up to a second ago."""
        kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
        if is_fresh:
            self._seen.pop((task_queue, kind), None)
        return await self._look(task_queue, kind)

    async def of_activities(self, task_queue: str) -> QueuePresence:
        """Who works."""
        return await self._look(task_queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)

    async def _look(self, task_queue: str, kind: "TaskQueueType.ValueType") -> QueuePresence:
        seen = self._seen.get((task_queue, kind))
        if seen is not None and time.monotonic() - seen[0] < _CACHE_SECONDS:
            return seen[1]
        presence = await self._ask(task_queue, kind)
        self._seen[task_queue, kind] = (time.monotonic(), presence)
        return presence

    async def _ask(self, task_queue: str, kind: "TaskQueueType.ValueType") -> QueuePresence:
        try:
            return await self._ask_server(task_queue, kind)
        except RPCError as error:
            # No name of a task queue, so that nobody can be serving it.
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            return QueuePresence(is_served=False, backlog={})

    async def _ask_server(self, task_queue: str, kind: "TaskQueueType.ValueType") -> QueuePresence:
        service = self._client.workflow_service
        workers = await service.list_workers(
            ListWorkersRequest(
                namespace=self._client.namespace,
                query=_workers_of(task_queue),
                page_size=1000,
            )
        )
        queue = await service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self._client.namespace,
                task_queue=TaskQueue(name=task_queue),
                task_queue_type=kind,
                report_stats=True,
                report_pollers=True,
            )
        )
        beats = [
            info.worker_heartbeat.heartbeat_time
            for info in workers.workers_info
            if info.worker_heartbeat.status == WorkerStatus.WORKER_STATUS_RUNNING
            and info.worker_heartbeat.task_queue == task_queue
        ]
        polls = [poller.last_access_time for poller in queue.pollers]
        return QueuePresence(
            is_served=_any_since(beats, HEARTBEAT_AGE) or _any_since(polls, _POLL_AGE),
            backlog={
                key: stats.approximate_backlog_count
                for key, stats in queue.stats_by_priority_key.items()
            },
        )


def _workers_of(task_queue: str) -> str:
    """A query for the workers of a queue; for all of them where its name can't be quoted."""
    return "" if '"' in task_queue or "\\" in task_queue else f'TaskQueue="{task_queue}"'


def _any_since(times: Iterable[Timestamp], age: timedelta) -> bool:
    """Whether one of the times is younger than `age`, by the clock of this machine.

    Heartbeats carry the workers' clocks and polls the server's, and no answer says what time the
    server has now (`elapsed_since_last_heartbeat` is the time between the last two): clocks that
    differ by more than a few seconds make the living look gone, or the dead alive.
    """
    now = datetime.now(UTC)
    return any(now - time.ToDatetime(tzinfo=UTC) < age for time in times)
