"""What the pure tests share: a hand-moved clock, a job on it, and ways for attempts to end."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, settings

from activities.errors import ErrorKind
from activities.models import (
    ClaimInput,
    FailureReport,
    GenerationParameters,
    Phase,
    Progress,
    StopReason,
    WorkResult,
)
from activities.refs import CheckpointRef
from tests.fakes import FAKE_ARTIFACT
from workflows.job import Job
from workflows.job_record import JobRecord
from workflows.messages import ImageJobInput
from workflows.outcomes import AttemptFailure

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKER = "fake"
# On a slow machine, too.
quick = settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
SUCCEEDED = WorkResult(artifact=FAKE_ARTIFACT, worker=WORKER)


@dataclass
class Clock:
    """Shows what it is told to."""

    now: datetime = field(default=START)

    def __call__(self) -> datetime:
        """The time it shows."""
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """Move on, or back."""
        self.now += timedelta(seconds=seconds)


def image_request(**fields: object) -> ImageJobInput:
    """A valid request with the given fields."""
    return ImageJobInput.model_validate(
        {"parameters": GenerationParameters(prompt="a lake", seed=7)} | fields
    )


def new_job(clock: Clock, **fields: object) -> Job:
    """A job that nobody has worked on."""
    return Job(JobRecord("x", clock.now, image_request(**fields)), clock, random.Random(1))


def claim(job: Job) -> None:
    """An attempt is scheduled, and a worker takes it."""
    dispatch = job.next_dispatch()
    assert job.refusal_of(ClaimInput(dispatch=dispatch, worker=WORKER)) is None
    job.claim(WORKER)


def claimed_job(clock: Clock, **fields: object) -> Job:
    """A job that a worker is on."""
    job = new_job(clock, **fields)
    claim(job)
    return job


def at_step(step: int) -> Progress:
    """Progress of an attempt that has done so many of 150 steps."""
    return Progress(percent=min(step, 97), step=step, total_steps=150, phase=Phase.STEP, at=START)


def checkpoint(step: int) -> CheckpointRef:
    """A checkpoint after `step`."""
    return CheckpointRef(key=f"checkpoints/x/1-{step}", step=step)


def failure(kind: ErrorKind, message: str = "it broke", **report: object) -> AttemptFailure:
    """A failure that a worker reported."""
    fields = {"kind": kind, "worker": WORKER} | report
    return AttemptFailure(message, FailureReport.model_validate(fields))


def loss(**report: object) -> AttemptFailure:
    """A worker that was lost."""
    fields = {"kind": ErrorKind.WORKER_LOST, "worker": WORKER} | report
    report_of_loss = FailureReport.model_validate(fields)
    return AttemptFailure("the worker fake was lost", report_of_loss, by_watchdog=True)


def stopped(reason: StopReason, step: int) -> WorkResult:
    """An attempt that ended at a checkpoint."""
    return WorkResult(
        stopped=reason, worker=WORKER, checkpoint=checkpoint(step), progress=at_step(step)
    )


def events_of(job: Job) -> list[str]:
    """The events of the job so far."""
    return [transition.event.value for transition in job.record.transitions]


def wait_of(job: Job, clock: Clock) -> float:
    """Seconds until the next attempt may start."""
    assert job.record.status.startable_at is not None
    return (job.record.status.startable_at - clock.now).total_seconds()
