"""Settling an attempt that has ended, from its job's workflow: whatever Temporal tells of it."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

from activities.models import WorkResult
from workflows.dispatching import Work
from workflows.ends import end_attempt, lose_attempt_to_outage
from workflows.job import Job
from workflows.looks import lost_at
from workflows.options import OUTAGE_SILENCE
from workflows.outcomes import (
    AttemptFailure,
    is_made_up,
    read_failure,
    read_result,
    unreadable_result,
)
from workflows.state_machine import JobState

_REFUSE_MADE_UP_RESULTS = "refuse-made-up-results"


async def settle(job: Job, work: Work) -> None:
    """Tell the job how its attempt ended."""
    # Before its claim nobody knows which worker an attempt was given to.
    claimed = job.state is JobState.PROCESSING
    worker = job.record.status.worker or "" if claimed else ""
    outcome: WorkResult | AttemptFailure
    try:
        outcome = read_result(work.result(), workflow.payload_converter(), worker)
    except ActivityError as error:
        outcome = read_failure(error, worker)
        if outcome.heard_at is not None and claimed:
            at = await lost_at(error.scheduled_event_id)
            silence = at - outcome.heard_at if at else timedelta(0)
            if silence > OUTAGE_SILENCE:
                lose_attempt_to_outage(job, outcome, silence)
                return
    # Jobs that took such a result must still replay; only one that is made up costs a marker.
    is_unfit = isinstance(outcome, WorkResult) and is_made_up(outcome, job.record.job_id)
    if is_unfit and workflow.patched(_REFUSE_MADE_UP_RESULTS):
        outcome = unreadable_result(worker)
    end_attempt(job, outcome)
