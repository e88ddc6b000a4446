"""What a job's workflow has looked at for it, by local activities: each answer is in history."""

import contextlib
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

from activities.watchdog import (
    ReadIdleInput,
    ReadLossInput,
    WatchdogActivities,
    let_results_in,
)
from workflows.names import attempt_activity_id
from workflows.options import (
    HEARTBEAT_TIMEOUT,
    LET_RESULTS_IN_RETRY,
    LET_RESULTS_IN_TIMEOUT,
    READ_IDLE_RETRY,
    READ_IDLE_TIMEOUT,
    READ_LOSS_RETRY,
    READ_LOSS_TIMEOUT,
)


async def await_results() -> None:
    """Let a result in that came with a signal.

    Within one workflow task the SDK applies signals first, and a result only after them.
    """
    with contextlib.suppress(ActivityError):
        await workflow.execute_local_activity(
            let_results_in,
            start_to_close_timeout=LET_RESULTS_IN_TIMEOUT,
            retry_policy=LET_RESULTS_IN_RETRY,
        )


async def idle_seconds(dispatch: int, idle_before: timedelta) -> float | None:
    """How long ago the running attempt last moved; None if nobody could look."""
    info = workflow.info()
    try:
        return await workflow.execute_local_activity_method(
            WatchdogActivities.read_idle_seconds,
            ReadIdleInput(
                workflow_id=info.workflow_id,
                run_id=info.run_id,
                activity_id=attempt_activity_id(dispatch),
                heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT.total_seconds(),
                idle_before_seconds=idle_before.total_seconds(),
            ),
            start_to_close_timeout=READ_IDLE_TIMEOUT,
            retry_policy=READ_IDLE_RETRY,
        )
    except ActivityError:
        workflow.logger.warning("the watchdog could not look at the running attempt")
        return None


async def lost_at(scheduled_event_id: int) -> datetime | None:
    """When the server gave an attempt up; None if nobody could look.

    A workflow worker that was away learns of a loss long after it happened.
    """
    info = workflow.info()
    try:
        return await workflow.execute_local_activity_method(
            WatchdogActivities.read_lost_at,
            ReadLossInput(
                workflow_id=info.workflow_id,
                run_id=info.run_id,
                scheduled_event_id=scheduled_event_id,
            ),
            start_to_close_timeout=READ_LOSS_TIMEOUT,
            retry_policy=READ_LOSS_RETRY,
        )
    except ActivityError:
        workflow.logger.warning("the watchdog could not look at the lost attempt")
        return None
