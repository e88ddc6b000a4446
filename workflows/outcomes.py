"""How the end of an attempt reads to its job: result, or error kind, message, what is left."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from temporalio.common import RawValue
from temporalio.converter import PayloadConverter
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    TimeoutError,
    TimeoutType,
)

from activities.errors import ErrorKind
from activities.models import AttemptHeartbeat, CarriedProvenance, FailureReport, WorkResult
from workflows.options import HEARTBEAT_TIMEOUT

# What no field of an implicit label exceeds.
_LONGEST_LABEL_TEXT = 1000


@dataclass(frozen=True)
class AttemptFailure:
    """Why an attempt ended without a result. `by_watchdog`: nobody reported it, it was noticed.

    `heard_at`: when the worker sent its last heartbeat by Temporal's clock, where they ceased.
    """

    message: str
    report: FailureReport
    by_watchdog: bool = False
    in_queue: bool = False
    cancelled: bool = False
    heard_at: datetime | None = None

    @property
    def kind(self) -> ErrorKind:
        """The error kind that the job shows if this was its last attempt."""
        return self.report.kind

    @classmethod
    def of(cls, kind: ErrorKind, message: str, worker: str) -> "AttemptFailure":
        """A failure of which no more is known."""
        return cls(message, FailureReport(kind=kind, worker=worker))


def read_result(
    result: RawValue | None, converter: PayloadConverter, worker: str
) -> WorkResult | AttemptFailure:
    """Decode what an attempt returned; an operator may have completed it with anything."""
    if result is None:
        return unreadable_result(worker)
    try:
        decoded: object = converter.from_payload(result.payload, WorkResult)
    # Converters raise what they like, and a failed decode must end the attempt, not the task.
    except Exception:  # noqa: BLE001
        return unreadable_result(worker)
    return decoded if isinstance(decoded, WorkResult) else unreadable_result(worker)


def is_made_up(result: WorkResult, job_id: str) -> bool:
    """Whether no attempt of this job can have returned it, whoever did."""
    artifact, checkpoint, label = result.artifact, result.checkpoint, result.label
    is_foreign_image = artifact is not None and not artifact.is_of(job_id)
    is_foreign_label = label is not None and not label.pristine.is_pristine_of(job_id)
    is_foreign_checkpoint = checkpoint is not None and not checkpoint.is_of(job_id)
    is_foreign = is_foreign_image or is_foreign_label or is_foreign_checkpoint
    return is_foreign or _is_longer_than_a_label(result.provenance)


def _is_longer_than_a_label(provenance: CarriedProvenance | None) -> bool:
    """A job's memo would hold it, and one that is too large for Temporal stops its job for good."""
    told = (provenance.aigc if provenance else None) or {}
    return any(max(len(name), len(text)) > _LONGEST_LABEL_TEXT for name, text in told.items())


def unreadable_result(worker: str) -> AttemptFailure:
    """What a result reads as that isn't one."""
    message = "the attempt's result could not be read"
    return AttemptFailure.of(ErrorKind.INTERNAL, message, worker)


def read_failure(error: ActivityError, worker: str) -> AttemptFailure:
    """Translate what Temporal tells of a failed work activity; `worker` had claimed the job."""
    cause = error.cause
    if isinstance(cause, TimeoutError):
        return _read_timeout(cause, worker)
    if isinstance(cause, ApplicationError):
        return _read_application_error(cause, worker)
    report = FailureReport(kind=ErrorKind.INTERNAL, worker=worker)
    stopped = isinstance(cause, CancelledError)
    return AttemptFailure(
        "the attempt was stopped" if stopped else "the attempt failed unexpectedly",
        report,
        cancelled=stopped,
    )


def _read_timeout(cause: TimeoutError, worker: str) -> AttemptFailure:
    if cause.type is TimeoutType.SCHEDULE_TO_START:
        report = FailureReport(kind=ErrorKind.TIMEOUT, worker=worker)
        return AttemptFailure("no worker took the job in time", report, True, in_queue=True)
    heartbeat = _last_heartbeat(cause)
    silence = f"no heartbeat for {HEARTBEAT_TIMEOUT.total_seconds():g} s"
    late = "it did not end in time"
    return AttemptFailure(
        f"{f'the worker {worker}' if worker else 'a worker'} was lost: "
        f"{silence if cause.type is TimeoutType.HEARTBEAT else late}",
        FailureReport(
            kind=ErrorKind.WORKER_LOST,
            worker=worker,
            load=heartbeat.load if heartbeat else 0.0,
            checkpoint=heartbeat.checkpoint if heartbeat else None,
            progress=heartbeat.progress if heartbeat else None,
        ),
        by_watchdog=True,
        heard_at=heartbeat.sent_at if heartbeat and cause.type is TimeoutType.HEARTBEAT else None,
    )


def _last_heartbeat(cause: TimeoutError) -> AttemptHeartbeat | None:
    try:
        return AttemptHeartbeat.model_validate(next(iter(cause.last_heartbeat_details), None))
    except ValidationError:
        # A worker that died before its first heartbeat told nothing: start from the beginning.
        return None


def _read_application_error(cause: ApplicationError, worker: str) -> AttemptFailure:
    try:
        report = FailureReport.model_validate(next(iter(cause.details), None))
    except ValidationError:
        # Not raised by our activities: an input it couldn't decode, or the SDK's own WorkerShutdown
        message = "the worker could not run the attempt"
        return AttemptFailure.of(ErrorKind.INTERNAL, message, worker)
    return AttemptFailure(cause.message, report)
