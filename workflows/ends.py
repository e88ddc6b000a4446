"""What the end of an attempt makes of its job. Pure, as `Job` is."""

from datetime import timedelta

from activities.errors import ErrorKind
from activities.models import FailureReport, Progress, StopReason, WorkResult
from activities.refs import CheckpointRef
from workflows.job import Job
from workflows.moves import with_note
from workflows.names import WATCHDOG, worker_source
from workflows.outcomes import AttemptFailure
from workflows.state_machine import JobState


def end_attempt(job: Job, outcome: WorkResult | AttemptFailure) -> None:
    """An attempt ended, with whatever it returned or failed with."""
    _note_movement(job, outcome.report if isinstance(outcome, AttemptFailure) else outcome)
    if isinstance(outcome, AttemptFailure):
        _end_with_failure(job, outcome)
    else:
        _end_with_result(job, outcome)


def lose_attempt_to_outage(job: Job, failure: AttemptFailure, silence: timedelta) -> None:
    """An attempt was given up by a server that could not hear its worker."""
    _note_movement(job, failure.report)
    if job.ledger.lose_to_outage():
        _remember(job, failure.report.checkpoint, failure.report.progress)
        # As after a failure: the pause is carried out before the next attempt.
        job.wishes.stopping = False
        message = f"Temporal was out of reach for about {silence.total_seconds():.0f} s"
        job.moves.retry(message, WATCHDOG, timedelta(0))
    else:
        end_attempt(job, failure)


def _end_with_result(job: Job, result: WorkResult) -> None:
    """It ended as it should: with an image, or at a checkpoint."""
    _remember(job, result.checkpoint, result.progress)
    source = worker_source(result.worker)
    if result.stopped is StopReason.OPERATOR_PAUSE:
        job.pause(with_note("paused with `temporal activity pause`", result))
    elif job.state is JobState.PENDING:
        lost = AttemptFailure.of(ErrorKind.WORKER_LOST, "the worker stopped", result.worker)
        _end_unclaimed(job, lost, source)
    elif result.artifact is not None:
        job.moves.complete(result, result.artifact, source)
    elif result.stopped is StopReason.WORKER_STOPPING:
        _hand_back(job, result, source)
    elif result.stopped is StopReason.PAUSE:
        job.pause(with_note("as requested", result))
    else:
        message = "the attempt ended without an image"
        empty = AttemptFailure.of(ErrorKind.INTERNAL, message, result.worker)
        _end_with_error(job, empty, source)


def _hand_back(job: Job, result: WorkResult, source: str) -> None:
    job.ledger.hand_back(has_advanced=_has_advanced(job, result))
    if job.ledger.is_used_up(job.request):
        message = "worker after worker stopped without any progress"
        job.moves.fail(ErrorKind.WORKER_LOST, message, source)
    else:
        job.moves.hand_back(with_note("the worker is stopping", result), source)


def _end_with_failure(job: Job, failure: AttemptFailure) -> None:
    """It ended with an error, or was lost."""
    _remember(job, failure.report.checkpoint, failure.report.progress)
    source = WATCHDOG if failure.by_watchdog else worker_source(failure.report.worker)
    if job.state is JobState.PENDING:
        _end_unclaimed(job, failure, source)
    elif failure.cancelled and job.wishes.stopping:
        job.pause("as requested")
    else:
        _end_with_error(job, failure, source)


def _end_with_error(job: Job, failure: AttemptFailure, source: str) -> None:
    job.ledger.fail(failure.kind)
    # A job that failed while it was to be paused is paused before its next attempt instead.
    job.wishes.stopping = False
    if failure.kind.is_permanent or job.ledger.is_used_up(job.request, failure.kind):
        job.moves.fail(failure.kind, failure.message, source)
    elif job.limits.processing_left <= timedelta(0):
        job.moves.time_out_processing(f"; its last attempt failed: {failure.message}")
    else:
        wait = job.ledger.interval(failure.report, job.rng)
        job.moves.retry(failure.message, source, wait)


def _end_unclaimed(job: Job, failure: AttemptFailure, source: str) -> None:
    if failure.in_queue:
        job.moves.time_out_in_queue()
    elif job.ledger.lose_unclaimed():
        wait = job.ledger.unclaimed_interval(failure.report, job.rng)
        job.moves.retry(f"{failure.message}, before the job was claimed", source, wait)
    else:
        message = f"no attempt could begin; the last one: {failure.message}"
        job.moves.fail(failure.kind, message, source)


def _note_movement(job: Job, end: WorkResult | FailureReport) -> None:
    if job.state is JobState.PROCESSING and _has_advanced(job, end):
        job.limits.note_movement()


def _has_advanced(job: Job, end: WorkResult | FailureReport) -> bool:
    """Whether an attempt did a step; one that started over counts from the first again."""
    start = job.started_from
    if end.checkpoint is not None and end.checkpoint != start:
        return True
    step = end.progress.step if end.progress else 0
    return step > (start.step if start else 0)


def _remember(job: Job, checkpoint: CheckpointRef | None, progress: Progress | None) -> None:
    # What a failure or a heartbeat names can be made up, as a result can.
    if checkpoint is not None and checkpoint.is_of(job.record.job_id):
        job.record.update(checkpoint=checkpoint)
    job.record.update(progress=progress)
