"""Scheduling one execution of the activity that does a job's work, from its workflow."""

from temporalio import workflow
from temporalio.common import RawValue

from activities.models import WorkInput
from workflows.job import Job
from workflows.names import attempt_activity_id
from workflows.options import HEARTBEAT_TIMEOUT, WORK_RETRY, WORK_TIMEOUT
from workflows.presentation import attempt_summary
from workflows.starting import task_priority
from workflows.work import work_route

# Undecoded: `temporal activity complete` can put anything there, and must not wedge the job.
Work = workflow.ActivityHandle[RawValue]


def schedule_work(job: Job) -> Work:
    """Put a job's next attempt into the queue of the workers that can do it."""
    dispatch, record, request = job.next_dispatch(), job.record, job.request
    route = work_route(request)
    work: Work = workflow.start_activity(
        route.activity,
        WorkInput(
            job_id=record.job_id,
            tenant=request.tenant,
            dispatch=dispatch,
            parameters=request.parameters,
            checkpoint=record.status.checkpoint,
            predecessor_id=request.predecessor_id,
            removal=request.removal,
        ),
        result_type=RawValue,
        task_queue=route.task_queue,
        activity_id=attempt_activity_id(dispatch),
        schedule_to_start_timeout=job.limits.queue_time_left,
        start_to_close_timeout=WORK_TIMEOUT,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=WORK_RETRY,
        # A pause waits for its checkpoint. An attempt that is given up isn't awaited at all.
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=attempt_summary(record, job.ledger.current),
        # Not inherited: the workflow's own is that of its start, and can't be changed.
        priority=task_priority(request, record.priority),
    )
    # An attempt that was given up may fail with nobody to await it.
    work.add_done_callback(lambda task: task.cancelled() or task.exception())
    return work
