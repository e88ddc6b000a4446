"""Who is there to work: told by worker heartbeats, because a busy worker doesn't poll."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import TaskQueueType, WorkerStatus
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    ListWorkersRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from workflows.client import WORKER_HEARTBEAT_INTERVAL
from workflows.remembering import RememberedEach

# Two heartbeats may be late before a worker counts as gone.
HEARTBEAT_AGE = 2 * WORKER_HEARTBEAT_INTERVAL + timedelta(seconds=2)
# A worker that has just started polls before its first heartbeat is due.
_POLL_AGE = WORKER_HEARTBEAT_INTERVAL + timedelta(seconds=1)
# However many clients poll their jobs, Temporal is asked once a second for each queue.
_CACHE_SECONDS = 1.0
_MOST_QUEUES = 1000
# Temporal remembers the dead for a day.
_WORKERS_PER_CALL = 1000
_MAX_CALLS = 10
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Queue:
    """A task queue, of workflows or of activities."""

    name: str
    kind: "TaskQueueType.ValueType"


@dataclass(frozen=True)
class QueuePresence:
    """A task queue at one moment. `backlog` counts waiting tasks by Temporal's priority key."""

    is_served: bool
    backlog: dict[int, int]

    def ahead_of(self, priority_key: int) -> int:
        """About how many tasks of this and of higher priorities are waiting."""
        return sum(count for key, count in self.backlog.items() if key <= priority_key)


class Presence:
    """Looks at task queues, and remembers for a second, for all readers of a process."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # Whoever starts a job by hand may name any queue. No rest: what is told of a worker that
        # was killed must not depend on how slow the server is.
        self._seen = RememberedEach(self._ask, _CACHE_SECONDS, most=_MOST_QUEUES, rest=0)

    async def of_workflows(self, task_queue: str, *, is_fresh: bool = False) -> QueuePresence:
        """Who decides. `is_fresh`: as it is now, not as it was up to a second ago."""
        queue = Queue(task_queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)
        seen = self._seen.of(queue)
        return await (seen.anew() if is_fresh else seen.get())

    async def of_activities(self, task_queue: str) -> QueuePresence:
        """Who works."""
        queue = Queue(task_queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
        return await self._seen.of(queue).get()

    async def _ask(self, queue: Queue) -> QueuePresence:
        try:
            beats, told = await asyncio.gather(self._heartbeats(queue.name), self._describe(queue))
        except RPCError as error:
            # No name of a task queue, so that nobody can be serving it.
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            return QueuePresence(is_served=False, backlog={})
        return QueuePresence(
            is_served=is_served(beats, told.pollers, datetime.now(UTC)),
            backlog={
                key: stats.approximate_backlog_count
                for key, stats in told.stats_by_priority_key.items()
            },
        )

    async def _heartbeats(self, task_queue: str) -> list[WorkerHeartbeat]:
        beats = await worker_heartbeats(self._client, _workers_of(task_queue))
        return [beat for beat in beats if beat.task_queue == task_queue]

    async def _describe(self, queue: Queue) -> DescribeTaskQueueResponse:
        return await self._client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self._client.namespace,
                task_queue=TaskQueue(name=queue.name),
                task_queue_type=queue.kind,
                report_stats=True,
                report_pollers=True,
            )
        )


async def worker_heartbeats(client: Client, query: str = "") -> list[WorkerHeartbeat]:
    """The last heartbeat of every worker that a query finds; the dead ones' of a day, too."""
    beats: list[WorkerHeartbeat] = []
    token = b""
    for _ in range(_MAX_CALLS):
        answer = await client.workflow_service.list_workers(
            ListWorkersRequest(
                namespace=client.namespace,
                query=query,
                page_size=_WORKERS_PER_CALL,
                next_page_token=token,
            )
        )
        beats += [info.worker_heartbeat for info in answer.workers_info]
        token = answer.next_page_token
        if not token:
            break
    return beats


def is_served(beats: Iterable[WorkerHeartbeat], polls: Iterable[PollerInfo], now: datetime) -> bool:
    """Whether a worker is there, by the clock of this machine.

    Heartbeats carry the workers' clocks and polls the server's, and no answer says what time the
    server has now (`elapsed_since_last_heartbeat` is the time between the last two): clocks that
    differ by more than a few seconds make the living look gone, or the dead alive.
    """
    left_at: dict[str, datetime] = {}
    for beat in beats:
        at = _time(beat.heartbeat_time)
        if beat.status != WorkerStatus.WORKER_STATUS_RUNNING:
            known = left_at.get(beat.worker_identity, at)
            left_at[beat.worker_identity] = max(known, at)
        elif now - at < HEARTBEAT_AGE:
            return True
    # One that has told since that it is stopping doesn't come back for more.
    return any(
        now - _time(poll.last_access_time) < _POLL_AGE
        and _time(poll.last_access_time) > left_at.get(poll.identity, _LONG_AGO)
        for poll in polls
    )


def _workers_of(task_queue: str) -> str:
    """A query for the workers of a queue; for all of them where its name can't be quoted."""
    return "" if '"' in task_queue or "\\" in task_queue else f'TaskQueue="{task_queue}"'


def _time(timestamp: Timestamp) -> datetime:
    return timestamp.ToDatetime(tzinfo=UTC)
