"""Telling a job's receivers, from its workflow: each message has a workflow that delivers it.

A delivery outlives the job's run, and nothing that happens to it is of any concern to the job.
"""

import asyncio
import contextlib
from functools import partial

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

from workflows.callbacks import Message, messages_of, receivers
from workflows.delivery import CALLBACK_WORKFLOW, delivery_options
from workflows.job_record import JobRecord


async def tell_receivers(record: JobRecord) -> None:
    """Start a delivery for each transition, as soon as it is published; return after the last one.

    To be run beside the job's life, which it never holds up before its end.
    """
    if not receivers(record.request):
        return
    told = 0
    while not (record.state.is_terminal and told == len(record.transitions)):
        await workflow.wait_condition(partial(_has_news, record, told))
        fresh, view = record.transitions[told : record.told_transitions], record.view()
        told = record.told_transitions
        messages = [message for transition in fresh for message in messages_of(view, transition)]
        await asyncio.gather(*map(_start, messages))


def _has_news(record: JobRecord, told: int) -> bool:
    """Whether more transitions are published than were told."""
    return record.told_transitions > told


async def _start(message: Message) -> None:
    """Return once the delivery is there, whatever dies meanwhile."""
    # One that is there already, because the archiver made up for a run of this job, is the same.
    with contextlib.suppress(WorkflowAlreadyStartedError):
        await workflow.start_child_workflow(
            CALLBACK_WORKFLOW,
            message,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            **delivery_options(message),
        )
