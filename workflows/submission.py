"""Starting a job: the one place where a client makes it a workflow execution."""

from datetime import UTC, datetime

from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from workflows.messages import ImageJobInput, JobOutcome
from workflows.names import IMAGE_JOB_WORKFLOW, WORKFLOW_TASK_QUEUE
from workflows.starting import start_options


async def start_job(
    client: Client,
    job_id: str,
    request: ImageJobInput,
    *,
    task_queue: str = WORKFLOW_TASK_QUEUE,
    id_reuse_policy: WorkflowIDReusePolicy = WorkflowIDReusePolicy.REJECT_DUPLICATE,
) -> WorkflowHandle[object, JobOutcome]:
    """Start a job, durably, whether or not any worker is alive.

    Raises `WorkflowAlreadyStartedError` if there is a job of this id, or was one that the policy
    doesn't let be followed.
    """
    now = datetime.now(UTC)
    return await client.start_workflow(
        IMAGE_JOB_WORKFLOW,
        request,
        task_queue=task_queue,
        result_type=JobOutcome,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        **start_options(job_id, request, now, id_reuse_policy=id_reuse_policy),
    )
