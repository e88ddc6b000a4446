"""What starting a job takes, whether a client starts it or another job's workflow."""

from datetime import datetime, timedelta
from typing import Any

from temporalio.common import Priority, WorkflowIDReusePolicy

from workflows import options, presentation
from workflows.job_record import initial_memo
from workflows.messages import ImageJobInput
from workflows.names import workflow_id_for
from workflows.search_attributes import initial_search_attributes


def priority_key(priority: int) -> int:
    """Temporal serves key 1 first: priority 9 becomes 1, and 0 becomes 10."""
    return 10 - priority


def priority_of(key: int) -> int:
    """The inverse of `priority_key`, for any key that Temporal may tell."""
    return min(max(10 - key, 0), 9)


def task_priority(request: ImageJobInput, priority: int) -> Priority:
    """Where a job's tasks stand in their queues: by priority, and by fairness within it.

    The weight is that of the moment when the job was asked for: a job keeps it, as it keeps its
    tenant, and Temporal counts each task with its own.
    """
    return Priority(
        priority_key=priority_key(priority),
        fairness_key=request.tenant,
        fairness_weight=request.fairness_weight,
    )


def start_options(
    job_id: str,
    request: ImageJobInput,
    now: datetime,
    *,
    id_reuse_policy: WorkflowIDReusePolicy = WorkflowIDReusePolicy.REJECT_DUPLICATE,
) -> dict[str, Any]:
    """Keyword arguments that a client's `start_workflow` and a workflow's own have in common."""
    delay = max(request.start_at - now, timedelta(0)) if request.start_at else timedelta(0)
    return {
        "id": workflow_id_for(job_id),
        "id_reuse_policy": id_reuse_policy,
        "execution_timeout": options.execution_timeout(request, delay),
        "task_timeout": options.WORKFLOW_TASK_TIMEOUT,
        "memo": initial_memo(request),
        "search_attributes": initial_search_attributes(request, now),
        "priority": task_priority(request, request.priority),
        "static_summary": presentation.static_summary(request),
        "static_details": presentation.static_details(job_id, request),
    }
