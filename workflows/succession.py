"""Starting the job that follows another one in a chain, from the first one's workflow."""

import contextlib

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

from workflows.chain import removal_input
from workflows.messages import JobView
from workflows.names import IMAGE_JOB_WORKFLOW
from workflows.starting import start_options


async def start_successor(view: JobView) -> None:
    """Return once the successor of a job that succeeded is there, whatever dies meanwhile.

    It outlives its predecessor's run.
    """
    if view.status.successor_id is None or view.request is None:
        return
    request = removal_input(view, f"api:{view.request.tenant}", view.created_at)
    # The id has been taken by somebody who did the same by hand: it is there, too.
    with contextlib.suppress(WorkflowAlreadyStartedError):
        await workflow.start_child_workflow(
            IMAGE_JOB_WORKFLOW,
            request,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            # What is asked of the first job is no longer of any concern to the second.
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            **start_options(view.status.successor_id, request, workflow.now()),
        )
