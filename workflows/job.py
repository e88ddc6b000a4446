"""A job's decisions: what each thing that happens to it makes of it.

Pure: clock and chance are brought in, so that every decision can be tried without a server. The
workflow tells it what happened, and carries what changed to the server.
"""

import random
from collections.abc import Callable
from datetime import datetime, timedelta

from activities.errors import ErrorKind
from activities.models import (
    ArtifactRef,
    CheckpointRef,
    ClaimInput,
    FailureReport,
    Progress,
    StopReason,
    WorkResult,
)
from workflows import options
from workflows.amending import AmendNote
from workflows.attempts import AttemptLedger
from workflows.chain import removal_id
from workflows.job_limits import JobLimits
from workflows.job_record import JobRecord
from workflows.messages import (
    WATCHDOG,
    Amendment,
    ImageJobInput,
    JobError,
    JobResult,
    LimitExtension,
    clip,
    worker_source,
)
from workflows.notes import ControlNote
from workflows.outcomes import AttemptFailure
from workflows.presentation import attempt_summary
from workflows.state_machine import JobEvent, JobState
from workflows.wishes import Wishes


class Job:
    """One job: its record, its wishes, and the attempts it has used up."""

    def __init__(
        self, record: JobRecord, clock: Callable[[], datetime], rng: random.Random
    ) -> None:
        self.record = record
        self.wishes = Wishes()
        self.ledger = AttemptLedger()
        self.limits = JobLimits(record, clock)
        self.refused: str | None = None
        self._open_dispatch: int | None = None
        self._started_from: CheckpointRef | None = None
        self._now = clock
        self._rng = rng

    @property
    def state(self) -> JobState:
        """Where the job is."""
        return self.record.state

    @property
    def request(self) -> ImageJobInput:
        """What was asked, of a job that could be read."""
        return self.record.asked

    @property
    def has_attempt(self) -> bool:
        """Whether the attempt that was scheduled last may still start, or runs."""
        is_queued = self.state is JobState.PENDING and self._open_dispatch is not None
        return is_queued or self.state is JobState.PROCESSING

    def next_dispatch(self) -> int:
        """The serial number of the activity that is scheduled next: it alone may claim the job."""
        self._open_dispatch = self.record.status.dispatch + 1
        self.record.update(dispatch=self._open_dispatch)
        return self._open_dispatch

    def refusal_of(self, claim: ClaimInput) -> str | None:
        """Why a worker may not start, if it may not."""
        if self.state is not JobState.PENDING or self.wishes.cancel or self.wishes.pause:
            return f"the job is {self.state}, or about to stop"
        if claim.dispatch != self._open_dispatch:
            return "this attempt is over, or another one has taken over"
        return None

    def claim(self, worker: str) -> None:
        """START: the worker owns the job until its attempt ends."""
        self._started_from = self.record.status.checkpoint
        self.limits.begin_attempt()
        self._apply(
            JobEvent.START,
            worker_source(worker),
            attempt_summary(self.record, self.ledger.current),
            attempt=self.ledger.current,
            worker=worker,
            started_at=self.record.status.started_at or self._now(),
            deadline_at=self._now() + max(self.limits.processing_left, timedelta(0)),
        )

    def grant_wishes(self) -> None:
        """Act on wishes while no attempt is running."""
        if self.wishes.cancel:
            self.cancel()
        elif self.wishes.pause:
            self._pause("held back before it started")
        elif note := self.wishes.resume:
            self._resume(note)
        else:
            self.amend()

    def amend(self) -> None:
        """Make of the job what was asked for since: at once, or from the next attempt on."""
        before = self.record.priority
        for note in self.wishes.amendments_granted():
            self._amend(note)
        if self.record.priority != before and self.state is JobState.PENDING:
            # What is queued keeps its place: only another dispatch can be put into another one.
            self._open_dispatch = None

    def _amend(self, note: AmendNote) -> None:
        record, status = self.record, self.record.status
        if changes := note.changes(record.priority, record.timeout_seconds):
            message = note.message
            entry = Amendment(at=self._now(), source=note.source, message=message, **changes)
            record.update(amendments=(*status.amendments, entry), **changes)
        if "timeout_seconds" in changes:
            runs_out_at = self.limits.amend()
            is_running = self.state is JobState.PROCESSING
            record.update(deadline_at=runs_out_at if is_running else None)

    def cancel(self) -> None:
        """CANCEL, at once: whatever the engine still returns is discarded."""
        note = self.wishes.cancel or ControlNote()
        self._apply(JobEvent.CANCEL, note.source, note.message or "cancelled on request")

    def begin_pause(self) -> None:
        """Tell the world that the job will pause once its checkpoint is safe."""
        self.wishes.stopping = True
        self.record.update(pending_request="pause")

    def judge_limit(self, idle_seconds: float | None) -> timedelta | None:
        """The processing time ran out: TIMEOUT, or more time for a job that still moves.

        Nobody could look (`None`): that must not cost a job its work.
        """
        given = self.record.status.extensions
        moves = idle_seconds is None or idle_seconds < options.RECENT_PROGRESS.total_seconds()
        if moves and len(given) < options.MAX_EXTENSIONS:
            self._extend(given)
            return options.LIMIT_EXTENSION
        # Longer than it was worked on it can't have been idle; one that never moved reads so.
        idle = min(idle_seconds or 0.0, self.limits.processed.total_seconds())
        self._time_out_processing(
            ", still moving" if moves else f", without progress for {idle:.0f} s"
        )
        return None

    def _time_out_processing(self, ending: str) -> None:
        limit = self.record.timeout_seconds
        self._time_out(f"the job was worked on for its limit of {limit:g} s{ending}")

    def _extend(self, given: tuple[LimitExtension, ...]) -> None:
        until = self.limits.extend()
        message = "the time ran out while the job was still moving"
        entry = LimitExtension(at=self._now(), until=until, message=message)
        self.record.update(extensions=(*given, entry), deadline_at=until)

    def time_out_in_queue(self) -> None:
        """No worker came in time."""
        limit = self.request.queue_timeout_seconds
        self._time_out(f"no worker took the job within its queue limit of {limit:g} s")

    def time_out_paused(self) -> None:
        """Nobody resumed it in time."""
        limit = options.TOTAL_PAUSE_LIMIT.days
        self._time_out(f"the job was paused for longer than {limit} days in all")

    def fail_unreadable(self, reason: str) -> None:
        """The input can never be worked on."""
        self._fail(ErrorKind.INVALID_PARAMETERS, reason, WATCHDOG)

    def settle_outage(self, failure: AttemptFailure, silence: timedelta) -> None:
        """An attempt was given up by a server that could not hear its worker."""
        self._note_movement(failure.report)
        if self.ledger.lose_to_outage():
            self._remember(failure.report.checkpoint, failure.report.progress)
            # As after a failure: the pause is carried out before the next attempt.
            self.wishes.stopping = False
            message = f"Temporal was out of reach for about {silence.total_seconds():.0f} s"
            self._retry(message, WATCHDOG, timedelta(0))
        else:
            self.settle(failure)

    def settle(self, outcome: WorkResult | AttemptFailure) -> None:
        """An attempt ended."""
        self._note_movement(outcome.report if isinstance(outcome, AttemptFailure) else outcome)
        if isinstance(outcome, AttemptFailure):
            self._settle_failure(outcome)
        else:
            self._settle_result(outcome)

    def _settle_result(self, result: WorkResult) -> None:
        """It ended as it should: with an image, or at a checkpoint."""
        self._remember(result.checkpoint, result.progress)
        source = worker_source(result.worker)
        if result.stopped is StopReason.OPERATOR_PAUSE:
            self._pause(_with_note("paused with `temporal activity pause`", result))
        elif self.state is JobState.PENDING:
            lost = AttemptFailure.of(ErrorKind.WORKER_LOST, "the worker stopped", result.worker)
            self._settle_unclaimed(lost, source)
        elif result.artifact is not None:
            self._complete(result, result.artifact, source)
        elif result.stopped is StopReason.WORKER_STOPPING:
            self._settle_hand_back(result, source)
        elif result.stopped is StopReason.PAUSE:
            self._pause(_with_note("as requested", result))
        else:
            message = "the attempt ended without an image"
            empty = AttemptFailure.of(ErrorKind.INTERNAL, message, result.worker)
            self._settle_failed_attempt(empty, source)

    def _complete(self, result: WorkResult, artifact: ArtifactRef, source: str) -> None:
        image = JobResult(
            artifact=artifact,
            seed=self.request.parameters.seed,
            label=result.label,
            removed=result.removed,
            provenance=result.provenance,
        )
        self._apply(
            JobEvent.COMPLETE,
            source,
            _with_note("the image is stored", result),
            result=image,
            successor_id=removal_id(self.record.job_id) if self.request.wants_removal else None,
        )

    def _settle_hand_back(self, result: WorkResult, source: str) -> None:
        self.ledger.hand_back(has_advanced=self._has_advanced(result))
        if self.ledger.is_used_up(self.request):
            message = "worker after worker stopped without any progress"
            self._fail(ErrorKind.WORKER_LOST, message, source)
        else:
            message = _with_note("the worker is stopping", result)
            self._apply(JobEvent.PAUSE, source, message)
            self._apply(JobEvent.RESUME, WATCHDOG, "handed back for another worker")

    def _note_movement(self, end: WorkResult | FailureReport) -> None:
        if self.state is JobState.PROCESSING and self._has_advanced(end):
            self.limits.note_movement()

    def _has_advanced(self, result: WorkResult | FailureReport) -> bool:
        """Whether an attempt did a step; one that started over counts from the first again."""
        start = self._started_from
        if result.checkpoint is not None and result.checkpoint != start:
            return True
        step = result.progress.step if result.progress else 0
        return step > (start.step if start else 0)

    def _settle_failure(self, failure: AttemptFailure) -> None:
        """It ended with an error, or was lost."""
        self._remember(failure.report.checkpoint, failure.report.progress)
        source = WATCHDOG if failure.by_watchdog else worker_source(failure.report.worker)
        if self.state is JobState.PENDING:
            self._settle_unclaimed(failure, source)
        elif failure.cancelled and self.wishes.stopping:
            self._pause("as requested")
        else:
            self._settle_failed_attempt(failure, source)

    def _settle_failed_attempt(self, failure: AttemptFailure, source: str) -> None:
        self.ledger.fail(failure.kind)
        # A job that failed while it was to be paused is paused before its next attempt instead.
        self.wishes.stopping = False
        if failure.kind.is_permanent or self.ledger.is_used_up(self.request, failure.kind):
            self._fail(failure.kind, failure.message, source)
        elif self.limits.processing_left <= timedelta(0):
            self._time_out_processing(f"; its last attempt failed: {failure.message}")
        else:
            wait = self.ledger.interval(failure.report, self._rng)
            self._retry(failure.message, source, wait)

    def _settle_unclaimed(self, failure: AttemptFailure, source: str) -> None:
        if failure.in_queue:
            self.time_out_in_queue()
        elif self.ledger.lose_unclaimed():
            wait = self.ledger.unclaimed_interval(failure.report, self._rng)
            self._retry(f"{failure.message}, before the job was claimed", source, wait)
        else:
            message = f"no attempt could begin; the last one: {failure.message}"
            self._fail(failure.kind, message, source)

    def _remember(self, checkpoint: CheckpointRef | None, progress: Progress | None) -> None:
        # What a failure or a heartbeat names can be made up, as a result can.
        if checkpoint is not None and checkpoint.is_of(self.record.job_id):
            self.record.update(checkpoint=checkpoint)
        self.record.update(progress=progress)

    def _retry(self, message: str, source: str, wait: timedelta) -> None:
        after = f"in {wait.total_seconds():.0f} s" if wait else "at once"
        self._apply(
            JobEvent.RETRY,
            source,
            f"{message}; next attempt {after}",
            startable_at=self._now() + wait,
        )

    def _fail(self, kind: ErrorKind, message: str, source: str) -> None:
        error = JobError(kind=kind, message=clip(message), retryable=not kind.is_permanent)
        self._apply(JobEvent.FAIL, source, message, error=error)

    def _time_out(self, message: str) -> None:
        error = JobError(kind=ErrorKind.TIMEOUT, message=clip(message), retryable=True)
        self._apply(JobEvent.TIMEOUT, WATCHDOG, message, error=error)

    def _pause(self, default: str) -> None:
        note = self.wishes.pause_granted() or ControlNote()
        self.ledger.pause()
        self._apply(JobEvent.PAUSE, note.source, note.message or default)

    def _resume(self, note: ControlNote) -> None:
        self.wishes.resume_granted()
        self._apply(JobEvent.RESUME, note.source, note.message or "resumed on request")

    def _apply(self, event: JobEvent, source: str, message: str, **status: object) -> None:
        self.record.apply(event, at=self._now(), source=source, message=clip(message))
        # Whatever happened, an attempt that was scheduled before it may not start after it.
        self._open_dispatch = None
        if self.state is not JobState.PROCESSING:
            status |= {"pending_request": None, "deadline_at": None}
        if self.state.is_terminal:
            status |= {"finished_at": self.record.updated_at}
        self.record.update(**status)


def _with_note(message: str, result: WorkResult) -> str:
    """A message, and what the attempt has to say besides."""
    return f"{message}; {result.note}" if result.note else message
