"""The worker that decides: all that the workflows of this build need to run."""

from collections.abc import Callable, Sequence
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from activities.watchdog import WatchdogActivities, let_results_in
from workflows.archiving import ArchiveJobsWorkflow
from workflows.bulk import BulkWorkflow
from workflows.bulk_sweep import BulkActivities
from workflows.delivery import CallbackWorkflow
from workflows.image_job import ImageJobWorkflow
from workflows.names import WORKFLOW_TASK_QUEUE
from workflows.options import BULK_HEARTBEAT, LIGHT_ACTIVITIES_AT_ONCE, STICKY_QUEUE_TIMEOUT


def workflow_worker(
    client: Client,
    activities: Sequence[Callable[..., Any]] = (),
    *,
    task_queue: str = WORKFLOW_TASK_QUEUE,
) -> Worker:
    """A worker for the workflows, their local activities, and the given light activities."""
    watchdog = WatchdogActivities(client)
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[ImageJobWorkflow, ArchiveJobsWorkflow, BulkWorkflow, CallbackWorkflow],
        activities=[
            watchdog.read_idle_seconds,
            watchdog.read_lost_at,
            let_results_in,
            BulkActivities(client).carry_out_bulk,
            *activities,
        ],
        # Mostly callbacks, which wait for receivers that may be slow.
        max_concurrent_activities=LIGHT_ACTIVITIES_AT_ONCE,
        # Else the progress of a bulk would be told every eight seconds.
        max_heartbeat_throttle_interval=BULK_HEARTBEAT,
        sticky_queue_schedule_to_start_timeout=STICKY_QUEUE_TIMEOUT,
    )
