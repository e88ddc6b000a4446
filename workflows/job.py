"""A job's decisions: what people ask, workers claim and clocks say, and what follows from it.

How its attempts end is decided in `ends`. Pure: clock and chance are brought in, so that every
decision can be tried without a server. The workflow tells it what happened, and carries what
changed to the server.
"""

import random
from collections.abc import Callable
from datetime import datetime, timedelta

from activities.errors import ErrorKind
from activities.models import ClaimInput
from activities.refs import CheckpointRef
from workflows import options
from workflows.amending import AmendNote
from workflows.attempts import AttemptLedger
from workflows.job_limits import JobLimits
from workflows.job_record import JobRecord
from workflows.messages import Amendment, ImageJobInput, LimitExtension
from workflows.moves import Moves
from workflows.names import WATCHDOG, worker_source
from workflows.notes import ControlNote
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
        self.moves = Moves(record, clock)
        self.refused: str | None = None
        self.started_from: CheckpointRef | None = None
        self._now = clock
        self.rng = rng

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
        is_queued = self.state is JobState.PENDING and self.moves.open_dispatch is not None
        return is_queued or self.state is JobState.PROCESSING

    def next_dispatch(self) -> int:
        """The serial number of the activity that is scheduled next: it alone may claim the job."""
        self.moves.open_dispatch = self.record.status.dispatch + 1
        self.record.update(dispatch=self.moves.open_dispatch)
        return self.moves.open_dispatch

    def refusal_of(self, claim: ClaimInput) -> str | None:
        """Why a worker may not start, if it may not."""
        if self.state is not JobState.PENDING or self.wishes.cancel or self.wishes.pause:
            return f"the job is {self.state}, or about to stop"
        if claim.dispatch != self.moves.open_dispatch:
            return "this attempt is over, or another one has taken over"
        return None

    def claim(self, worker: str) -> None:
        """START: the worker owns the job until its attempt ends."""
        self.started_from = self.record.status.checkpoint
        self.limits.begin_attempt()
        self.moves.apply(
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
            self.pause("held back before it started")
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
            self.moves.open_dispatch = None

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
        self.moves.apply(JobEvent.CANCEL, note.source, note.message or "cancelled on request")

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
        self.moves.time_out_processing(
            ", still moving" if moves else f", without progress for {idle:.0f} s"
        )
        return None

    def _extend(self, given: tuple[LimitExtension, ...]) -> None:
        until = self.limits.extend()
        message = "the time ran out while the job was still moving"
        entry = LimitExtension(at=self._now(), until=until, message=message)
        self.record.update(extensions=(*given, entry), deadline_at=until)

    def fail_unreadable(self, reason: str) -> None:
        """The input can never be worked on."""
        self.moves.fail(ErrorKind.INVALID_PARAMETERS, reason, WATCHDOG)

    def pause(self, default: str) -> None:
        """PAUSE, as a person wished it, or by default for the reason given."""
        note = self.wishes.pause_granted() or ControlNote()
        self.ledger.pause()
        self.moves.apply(JobEvent.PAUSE, note.source, note.message or default)

    def _resume(self, note: ControlNote) -> None:
        self.wishes.resume_granted()
        self.moves.apply(JobEvent.RESUME, note.source, note.message or "resumed on request")
