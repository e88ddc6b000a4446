"""What the watchdog sees: how long ago a running attempt last moved."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client

from activities.models import AttemptHeartbeat
from activities.values import Model


class ReadIdleInput(Model):
    """Which attempt to look at.

    `idle_before_seconds` is how long its job had not moved when the attempt began: it goes on
    counting until the attempt moves. `heartbeat_timeout_seconds` is the attempt's.
    """

    workflow_id: str
    run_id: str
    activity_id: str
    heartbeat_timeout_seconds: float
    idle_before_seconds: float = 0.0


class ReadLossInput(Model):
    """Which attempt was lost: `scheduled_event_id` is the event by which it was scheduled."""

    workflow_id: str
    run_id: str
    scheduled_event_id: int


@activity.defn
async def let_results_in() -> None:
    """Nothing: by the time it is done, the workflow knows all that came with its last signal."""


class WatchdogActivities:
    """Looks at running attempts from outside."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn
    async def read_idle_seconds(self, input: ReadIdleInput) -> float | None:
        """Seconds since the job last moved; None if the attempt runs no more.

        The time of the step counts, not the heartbeat's: heartbeats go on while an engine hangs.
        """
        handle = self._client.get_workflow_handle(input.workflow_id, run_id=input.run_id)
        description = await handle.describe()
        for pending in description.raw_description.pending_activities:
            if pending.activity_id == input.activity_id:
                return await self._idle_seconds(pending, input)
        return None

    @activity.defn
    async def read_lost_at(self, input: ReadLossInput) -> datetime | None:
        """When the server gave an attempt up, by its clock; None if it says nothing of it."""
        token = b""
        while True:
            # From the end: the loss has only just been told.
            request = GetWorkflowExecutionHistoryReverseRequest(
                namespace=self._client.namespace,
                execution=WorkflowExecution(workflow_id=input.workflow_id, run_id=input.run_id),
                next_page_token=token,
            )
            service = self._client.workflow_service
            page = await service.get_workflow_execution_history_reverse(request)
            for event in page.history.events:
                timed_out = event.activity_task_timed_out_event_attributes
                if timed_out.scheduled_event_id == input.scheduled_event_id:
                    return event.event_time.ToDatetime(tzinfo=UTC)
            token = page.next_page_token
            if not token:
                return None

    async def _idle_seconds(self, pending: PendingActivityInfo, input: ReadIdleInput) -> float:
        if not pending.HasField("heartbeat_details"):
            return input.idle_before_seconds + _silence(pending.last_started_time, input)
        [heartbeat] = await self._client.data_converter.decode(
            list(pending.heartbeat_details.payloads), [AttemptHeartbeat]
        )
        before = 0.0 if heartbeat.has_moved else input.idle_before_seconds
        idle: float = heartbeat.idle_seconds
        return before + idle + _silence(pending.last_heartbeat_time, input)


def _silence(heard_at: Timestamp, input: ReadIdleInput) -> float:
    now, timeout = datetime.now(UTC), input.heartbeat_timeout_seconds
    return silence_seconds(heard_at.ToDatetime(tzinfo=UTC), now, timeout)


def silence_seconds(heard_at: datetime, now: datetime, heartbeat_timeout_seconds: float) -> float:
    """For how long a running attempt has said nothing, at the most.

    `heard_at` is the server's clock and `now` ours, which may differ by any amount; but an attempt
    that was silent for longer than its heartbeat timeout would not be running.
    """
    return min(max(0.0, (now - heard_at).total_seconds()), heartbeat_timeout_seconds)
