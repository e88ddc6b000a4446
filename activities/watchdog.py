"""What the watchdog sees: how long ago a running attempt last moved."""

from datetime import UTC, datetime

from temporalio import activity
from temporalio.client import Client

from activities.models import AttemptHeartbeat, Model


class ReadIdleInput(Model):
    """Which attempt to look at."""

    workflow_id: str
    run_id: str
    activity_id: str


@activity.defn
async def let_results_in() -> None:
    """Nothing: by the time it is done, the workflow knows all that came with its last signal."""


class WatchdogActivities:
    """Looks at running attempts from outside."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn
    async def read_idle_seconds(self, input: ReadIdleInput) -> float | None:
        """Seconds since the attempt last moved; None if it runs no more or never said.

        The time of the step counts, not the heartbeat's: heartbeats go on while an engine hangs.
        """
        handle = self._client.get_workflow_handle(input.workflow_id, run_id=input.run_id)
        description = await handle.describe()
        for pending in description.raw_description.pending_activities:
            if pending.activity_id == input.activity_id and pending.HasField("heartbeat_details"):
                [heartbeat] = await self._client.data_converter.decode(
                    list(pending.heartbeat_details.payloads), [AttemptHeartbeat]
                )
                beat_at = pending.last_heartbeat_time.ToDatetime(tzinfo=UTC)
                since_beat = (datetime.now(UTC) - beat_at).total_seconds()
                return float(heartbeat.idle_seconds) + max(0.0, since_beat)
        return None
