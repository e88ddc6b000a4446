"""Starting a job: the one place that knows how a job becomes a workflow execution."""

from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowHandle
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from workflows import options, presentation
from workflows.job_record import initial_memo
from workflows.messages import (
    IMAGE_JOB_WORKFLOW,
    WORKFLOW_TASK_QUEUE,
    ImageJobInput,
    JobOutcome,
    workflow_id_for,
)
from workflows.search_attributes import initial_search_attributes


def priority_key(priority: int) -> int:
    """Temporal serves key 1 first: priority 9 becomes 1, and 0 becomes 10."""
    return 10 - priority


async def start_job(
    client: Client, job_id: str, request: ImageJobInput, *, task_queue: str = WORKFLOW_TASK_QUEUE
) -> WorkflowHandle[object, JobOutcome]:
    """Start a job, durably, whether or not any worker is alive.

    Raises `WorkflowAlreadyStartedError` if there is, or was, a job of this id.
    """
    now = datetime.now(UTC)
    delay = max(request.start_at - now, timedelta(0)) if request.start_at else timedelta(0)
    return await client.start_workflow(
        IMAGE_JOB_WORKFLOW,
        request,
        id=workflow_id_for(job_id),
        task_queue=task_queue,
        result_type=JobOutcome,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        execution_timeout=options.execution_timeout(request, delay),
        task_timeout=options.WORKFLOW_TASK_TIMEOUT,
        memo=initial_memo(request),
        search_attributes=initial_search_attributes(request, now),
        priority=Priority(priority_key=priority_key(request.priority), fairness_key=request.tenant),
        static_summary=presentation.static_summary(request),
        static_details=presentation.static_details(job_id, request),
    )
