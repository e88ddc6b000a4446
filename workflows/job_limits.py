"""How long a job may still wait, be paused and be worked on. Pure."""

from collections.abc import Callable
from datetime import datetime, timedelta

from workflows import options
from workflows.job_record import JobRecord
from workflows.state_machine import JobState


class JobLimits:
    """The times of one job, counted from its record.

    The processing time has the limit in force; what an extension has made of it counts until the
    limit is amended.
    """

    def __init__(self, record: JobRecord, clock: Callable[[], datetime]) -> None:
        self._record = record
        self._now = clock
        # Both in processing time: what extensions have made of the limit, and the last movement.
        self._extended: timedelta | None = None
        self._moved_at = -options.RECENT_PROGRESS
        self._idle_before = timedelta(0)

    @property
    def delay(self) -> timedelta:
        """How long the job must still wait before an attempt may start."""
        startable_at = self._record.status.startable_at
        return startable_at - self._now() if startable_at else timedelta(0)

    @property
    def queue_time_left(self) -> timedelta:
        """How long the job may still wait for a worker."""
        waited = self._record.spent_in(JobState.PENDING, self._now())
        return self._record.asked.queue_timeout - waited

    @property
    def pause_left(self) -> timedelta:
        """How long the job may still stay paused."""
        return options.TOTAL_PAUSE_LIMIT - self._record.spent_in(JobState.PAUSED, self._now())

    @property
    def processing_left(self) -> timedelta:
        """How long the job may still be worked on; negative once it was for too long."""
        limit = timedelta(seconds=self._record.timeout_seconds)
        return (self._extended or limit) - self.processed

    @property
    def processed(self) -> timedelta:
        """How long the job was worked on, over all attempts."""
        return self._record.spent_in(JobState.PROCESSING, self._now())

    @property
    def idle_before(self) -> timedelta:
        """How long it had been worked on without any movement when the current attempt began.

        Beginning is no movement: one that has never moved counts as idle from the start.
        """
        return self._idle_before

    def begin_attempt(self) -> None:
        """A worker takes the job."""
        self._idle_before = self.processed - self._moved_at

    def note_movement(self) -> None:
        """The job has just moved."""
        self._moved_at = self.processed

    def extend(self) -> datetime:
        """Give a job that still moves more time; returns until when."""
        self._extended = self.processed + options.LIMIT_EXTENSION
        return self._now() + options.LIMIT_EXTENSION

    def amend(self) -> datetime:
        """Let the limit in force count, whatever extensions made of the last one.

        Returns when it runs out, for a job that is being worked on. That may be past.
        """
        self._extended = None
        return self._now() + self.processing_left
