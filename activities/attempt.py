"""One attempt at a job's work, whatever the work is: claim, heartbeats, and how it ends."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.errors import ErrorKind, WorkError
from activities.models import (
    CLAIM_REFUSED,
    AttemptHeartbeat,
    FailureReport,
    Phase,
    Progress,
    StopReason,
    WorkInput,
    WorkResult,
)
from activities.ownership import JobLostError, Ownership

# Short enough that a cancel is heard in a quarter of a second; a job shorter than that costs none.
HEARTBEAT_INTERVAL = timedelta(milliseconds=250)


@dataclass(frozen=True)
class StopRequest:
    """An end that was asked for. The engine is killed if it takes longer than `grace`."""

    reason: StopReason | None
    checkpoint: bool
    grace: timedelta


@dataclass(frozen=True)
class StopGraces:
    """How long an engine may take to stop, by reason. A pause waits for one long step."""

    cancel: timedelta = timedelta(seconds=3)
    pause: timedelta = timedelta(seconds=30)
    worker_stopping: timedelta = timedelta(seconds=15)


class Attempt:
    """The running execution of a work activity.

    The work reports to it: `moved` after each step, `checkpoint` once one is safely stored.
    """

    def __init__(
        self, input: WorkInput, ownership: Ownership, worker: str, graces: StopGraces
    ) -> None:
        self.input = input
        self.checkpoint = input.checkpoint
        self.stop: StopRequest | None = None
        self._ownership = ownership
        self._worker = worker
        self._graces = graces
        self._claimed = False
        self._on_stop: Callable[[StopRequest], None] | None = None
        self._total_steps = input.parameters.num_inference_steps
        self._step = input.checkpoint.step if input.checkpoint else 0
        self._percent = self._percent_of(self._step)
        self._moved(Phase.LOAD)

    def on_stop(self, callback: Callable[[StopRequest], None]) -> None:
        """Call back once when an end is asked for, at once if it already was."""
        self._on_stop = callback
        if self.stop is not None:
            callback(self.stop)

    def step_done(self, step: int, total_steps: int) -> None:
        """The work advanced."""
        self._step, self._total_steps = step, total_steps
        self._percent = max(self._percent, self._percent_of(step))
        self._moved(Phase.STEP)

    def start_over(self) -> None:
        """The checkpoint was of no use: the steps count from the first again."""
        self._step, self._percent, self.checkpoint = 0, 0, None

    def phase_begun(self, phase: Phase) -> None:
        """The work turned to something that isn't a step."""
        self._moved(phase)

    async def confirm_ownership(self) -> None:
        """Raises `JobLostError`; to be awaited before every write."""
        await self._ownership.confirm(self._heartbeat())

    def result(self, **fields: object) -> WorkResult:
        """What the activity returns: the given fields, and how far the attempt got."""
        return WorkResult.model_validate(
            {"worker": self._worker, "progress": self._progress, "checkpoint": self.checkpoint}
            | fields
        )

    async def run(self, work: Callable[["Attempt"], Awaitable[WorkResult]]) -> WorkResult:
        """Claim the job, do the work, and translate whatever happens for the workflow."""
        beside = [asyncio.create_task(self._beat()), asyncio.create_task(self._watch_worker())]
        try:
            return await self._run_until_stopped(work)
        except JobLostError as error:
            raise ApplicationError(str(error), type=CLAIM_REFUSED, non_retryable=True) from error
        except WorkError as error:
            raise self._failure(error) from None
        except Exception as error:
            # A fault of ours: the log gets all of it, the user only what helps.
            activity.logger.exception("the attempt failed unexpectedly")
            kind = type(error).__name__
            raise self._failure(WorkError(ErrorKind.INTERNAL, f"unexpected {kind}")) from error
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _run_until_stopped(
        self, work: Callable[["Attempt"], Awaitable[WorkResult]]
    ) -> WorkResult:
        task = asyncio.ensure_future(self._claim_and(work))
        while True:
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                if task.cancelled() and self.stop is not None and self.stop.reason is not None:
                    return self.result(stopped=self.stop.reason)
                if task.cancelled():
                    raise
                self._heed_cancellation(task)

    async def _claim_and(self, work: Callable[["Attempt"], Awaitable[WorkResult]]) -> WorkResult:
        await self._ownership.claim(self.input.dispatch)
        self._claimed = True
        if self.stop is not None and self.stop.reason is not None:
            return self.result(stopped=self.stop.reason)
        return await work(self)

    def _heed_cancellation(self, task: asyncio.Future[WorkResult]) -> None:
        """Temporal cancelled the activity: the details say what was meant."""
        details = activity.cancellation_details()
        graces = self._graces
        if details is None or details.not_found or details.timed_out or details.reset:
            self._ask_stop(StopRequest(None, checkpoint=False, grace=graces.cancel))
            task.cancel()
        elif details.worker_shutdown:
            self._ask_stop(StopRequest(StopReason.WORKER_STOPPING, True, graces.worker_stopping))
        else:
            reason = StopReason.OPERATOR_PAUSE if details.paused else StopReason.PAUSE
            self._ask_stop(StopRequest(reason, True, graces.pause))
        if not self._claimed:
            task.cancel()

    def _ask_stop(self, request: StopRequest) -> None:
        if self.stop is None:
            self.stop = request
            if self._on_stop is not None:
                self._on_stop(request)

    async def _watch_worker(self) -> None:
        await activity.wait_for_worker_shutdown()
        self._ask_stop(StopRequest(StopReason.WORKER_STOPPING, True, self._graces.worker_stopping))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL.total_seconds())
            activity.heartbeat(self._heartbeat())

    def _moved(self, phase: Phase) -> None:
        self._moved_at = time.monotonic()
        self._progress = Progress(
            percent={Phase.DECODE: 98, Phase.STORE: 99}.get(phase, self._percent),
            step=self._step,
            total_steps=self._total_steps,
            phase=phase,
            at=datetime.now(UTC),
        )

    def _percent_of(self, step: int) -> int:
        """Steps fill 0 to 97; decoding and storing come after them, and 100 is SUCCESS."""
        return min(97 * step // max(self._total_steps, 1), 97)

    def _heartbeat(self) -> AttemptHeartbeat:
        return AttemptHeartbeat(
            progress=self._progress,
            idle_seconds=time.monotonic() - self._moved_at,
            checkpoint=self.checkpoint,
            load=load_per_core(),
        )

    def _failure(self, error: WorkError) -> ApplicationError:
        report = FailureReport(
            kind=error.kind,
            worker=self._worker,
            load=load_per_core(),
            retry_after_seconds=error.retry_after_seconds,
            checkpoint=self.checkpoint,
            progress=self._progress,
        )
        return ApplicationError(error.message, report, type=error.kind, non_retryable=True)


def load_per_core() -> float:
    """The machine's load average of the last minute, by core, at most 4."""
    with contextlib.suppress(OSError):
        return min(os.getloadavg()[0] / (os.cpu_count() or 1), 4.0)
    return 0.0
