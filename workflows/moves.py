"""The transitions that a job makes, and what each of them leaves on its record."""

from collections.abc import Callable
from datetime import datetime, timedelta

from activities.errors import ErrorKind
from activities.models import WorkResult
from activities.refs import ArtifactRef
from workflows.chain import removal_id
from workflows.job_record import JobRecord
from workflows.messages import JobError, JobResult, clip
from workflows.names import WATCHDOG
from workflows.options import TOTAL_PAUSE_LIMIT
from workflows.state_machine import JobEvent, JobState


class Moves:
    """Moves one job from state to state, and knows which dispatch may start from there.

    `open_dispatch` is the serial number of the activity that may claim the job, if one may.
    """

    def __init__(self, record: JobRecord, clock: Callable[[], datetime]) -> None:
        self.open_dispatch: int | None = None
        self._record = record
        self._now = clock

    def apply(self, event: JobEvent, source: str, message: str, **status: object) -> None:
        """Make a transition, and set what it changes of the status besides."""
        record = self._record
        record.apply(event, at=self._now(), source=source, message=clip(message))
        # Whatever happened, an attempt that was scheduled before it may not start after it.
        self.open_dispatch = None
        if record.state is not JobState.PROCESSING:
            status |= {"pending_request": None, "deadline_at": None}
        if record.state.is_terminal:
            status |= {"finished_at": record.updated_at}
        record.update(**status)

    def complete(self, result: WorkResult, artifact: ArtifactRef, source: str) -> None:
        """COMPLETE: the attempt's image is the job's."""
        request = self._record.asked
        image = JobResult(
            artifact=artifact,
            seed=request.parameters.seed,
            label=result.label,
            removed=result.removed,
            provenance=result.provenance,
        )
        self.apply(
            JobEvent.COMPLETE,
            source,
            with_note("the image is stored", result),
            result=image,
            successor_id=removal_id(self._record.job_id) if request.wants_removal else None,
        )

    def hand_back(self, message: str, source: str) -> None:
        """PAUSE and RESUME: another worker goes on."""
        self.apply(JobEvent.PAUSE, source, message)
        self.apply(JobEvent.RESUME, WATCHDOG, "handed back for another worker")

    def retry(self, message: str, source: str, wait: timedelta) -> None:
        """RETRY: another attempt follows after `wait`."""
        after = f"in {wait.total_seconds():.0f} s" if wait else "at once"
        self.apply(
            JobEvent.RETRY,
            source,
            f"{message}; next attempt {after}",
            startable_at=self._now() + wait,
        )

    def fail(self, kind: ErrorKind, message: str, source: str) -> None:
        """FAIL, for good."""
        error = JobError(kind=kind, message=clip(message), retryable=not kind.is_permanent)
        self.apply(JobEvent.FAIL, source, message, error=error)

    def time_out_in_queue(self) -> None:
        """TIMEOUT: no worker came in time."""
        limit = self._record.asked.queue_timeout_seconds
        self._time_out(f"no worker took the job within its queue limit of {limit:g} s")

    def time_out_paused(self) -> None:
        """TIMEOUT: nobody resumed it in time."""
        limit = TOTAL_PAUSE_LIMIT.days
        self._time_out(f"the job was paused for longer than {limit} days in all")

    def time_out_processing(self, ending: str) -> None:
        """TIMEOUT: its attempts took too long in all."""
        limit = self._record.timeout_seconds
        self._time_out(f"the job was worked on for its limit of {limit:g} s{ending}")

    def _time_out(self, message: str) -> None:
        error = JobError(kind=ErrorKind.TIMEOUT, message=clip(message), retryable=True)
        self.apply(JobEvent.TIMEOUT, WATCHDOG, message, error=error)


def with_note(message: str, result: WorkResult) -> str:
    """A message, and what the attempt has to say besides."""
    return f"{message}; {result.note}" if result.note else message
