"""One attempt at a job's work, whatever the work is: claim, heartbeats, and how it ends."""

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.advance import Advance
from activities.errors import ErrorKind, WorkError
from activities.models import (
    CLAIM_REFUSED,
    MAX_NOTE_LENGTH,
    AttemptHeartbeat,
    FailureReport,
    StopReason,
    WorkInput,
    WorkResult,
)
from activities.ownership import Grant, JobLostError, Ownership
from activities.stops import StopGraces, StopRequest

# Short enough that a cancel is heard in a quarter of a second; a job shorter than that costs none.
HEARTBEAT_INTERVAL = timedelta(milliseconds=250)

# A good deal less than the heartbeat timeout, within which no other attempt can begin.
OWNERSHIP_LASTS = timedelta(seconds=1)


class Attempt:
    """The running execution of a work activity.

    The work reports to it: to `advance` after each step, `checkpoint` once one is safely stored.
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
        self._work: asyncio.Future[WorkResult] | None = None
        self._on_stop: Callable[[StopRequest], None] | None = None
        self._note = ""
        self._owned_at = -math.inf
        self._grant: Grant | None = None
        step = input.checkpoint.step if input.checkpoint else 0
        self.advance = Advance(step, input.total_steps, self._now)

    def on_stop(self, callback: Callable[[StopRequest], None]) -> None:
        """Call back when an end is asked for, and again if it is to be sooner.

        Until this is called the attempt has nothing to lose, and a stop ends it at once.
        """
        self._on_stop = callback
        if self.stop is not None:
            callback(self.stop)

    def start_over(self, reason: str) -> None:
        """The checkpoint was of no use."""
        self.advance.start_over()
        self.checkpoint = None
        self._note = f"started over: {reason}"[:MAX_NOTE_LENGTH]

    async def confirm_ownership(self) -> None:
        """Raises `JobLostError`; to be awaited before every write.

        What the server has just granted it can't have taken back: that takes it a heartbeat
        timeout. A process that was frozen since finds the time gone by.
        """
        if time.monotonic() - self._owned_at > OWNERSHIP_LASTS.total_seconds():
            await self._ownership.confirm(self._heartbeat())
            self._owned_at = time.monotonic()

    def result(self, **fields: object) -> WorkResult:
        """What the activity returns: the given fields, and how far the attempt got."""
        return WorkResult.model_validate(
            {
                "worker": self._worker,
                "progress": self.advance.progress,
                "checkpoint": self.checkpoint,
                "note": self._note,
            }
            | fields
        )

    def stopped(self) -> WorkResult:
        """What the activity returns where it was brought to a stop as asked."""
        if self.stop is None:
            raise ValueError("nobody asked for a stop")
        return self.result(stopped=self.stop.reason)

    async def run(self, work: Callable[["Attempt"], Awaitable[WorkResult]]) -> WorkResult:
        """Claim the job, do the work, and translate whatever happens for the workflow."""
        beside = [
            asyncio.create_task(watch)
            for watch in (self._beat(), self._watch_worker(), self._watch_job())
        ]
        try:
            return await self._run_until_stopped(work)
        except JobLostError as error:
            # Benign: it happens whenever a job is cancelled, and nobody needs to read of it.
            raise ApplicationError(
                str(error),
                type=CLAIM_REFUSED,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except WorkError as error:
            raise self._failure(error) from None
        except Exception as error:  # noqa: BLE001
            # A fault of ours: the log gets all of it, the user only what helps.
            activity.logger.exception("the attempt failed unexpectedly")
            kind = type(error).__name__
            # Without its cause, whose words and paths Temporal would keep in history.
            raise self._failure(WorkError(ErrorKind.INTERNAL, f"unexpected {kind}")) from None
        finally:
            # Not awaited: a cancellation that came just now would take the result with it.
            for task in beside:
                task.cancel()

    async def _run_until_stopped(
        self, work: Callable[["Attempt"], Awaitable[WorkResult]]
    ) -> WorkResult:
        self._work = task = asyncio.ensure_future(self._claim_and(work))
        while True:
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                if task.cancelled() and self.stop is not None and self.stop.reason is not None:
                    return self.result(stopped=self.stop.reason)
                if task.cancelled():
                    raise JobLostError("the job is over, or was given to another attempt") from None
                self._heed_cancellation()

    async def _claim_and(self, work: Callable[["Attempt"], Awaitable[WorkResult]]) -> WorkResult:
        self._grant = await self._ownership.claim(self.input.dispatch)
        self._owned_at = time.monotonic()
        # Waiting for the claim's answer was no idleness.
        self.advance.begin()
        return await work(self)

    def _heed_cancellation(self) -> None:
        """Temporal cancelled the activity: the details say what was meant."""
        details = activity.cancellation_details()
        graces = self._graces
        if details is None or details.not_found or details.timed_out or details.reset:
            self._ask_stop(StopRequest(None, checkpoint=False, grace=graces.cancel))
            self._end_work()
        elif details.worker_shutdown:
            # The worker's grace is over, and the engine's was within it: nothing is left to wait
            # for but a store that doesn't answer.
            self._ask_stop(StopRequest(StopReason.WORKER_STOPPING, True, graces.worker_stopping))
            self._end_work()
        else:
            reason = StopReason.OPERATOR_PAUSE if details.paused else StopReason.PAUSE
            self._ask_stop(StopRequest(reason, True, graces.pause))

    def _ask_stop(self, request: StopRequest) -> None:
        """Stop for the first reason that was given, but as soon as any of them wants it.

        A job that is lost is stopped for nothing else.
        """
        known = self.stop
        if known is None or request.reason is None:
            self.stop = request
        elif request.grace < known.grace:
            self.stop = replace(known, grace=request.grace)
        else:
            return
        if self._on_stop is not None:
            self._on_stop(self.stop)
        else:
            self._end_work()

    def _end_work(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _watch_worker(self) -> None:
        await activity.wait_for_worker_shutdown()
        self._ask_stop(StopRequest(StopReason.WORKER_STOPPING, True, self._graces.worker_stopping))

    async def _watch_job(self) -> None:
        """Notice that a job is lost, or cancelled, while it is brought to a stop.

        Temporal tells an activity only once that it is cancelled, so this one has to ask.
        """
        try:
            while True:
                await asyncio.sleep(HEARTBEAT_INTERVAL.total_seconds())
                if self.stop is not None:
                    await self._ownership.confirm(self._heartbeat())
        except JobLostError:
            self._ask_stop(StopRequest(None, checkpoint=False, grace=self._graces.cancel))
            self._end_work()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL.total_seconds())
            activity.heartbeat(self._heartbeat())

    def _now(self) -> datetime:
        """By Temporal's clock, so that a job's times are in order however this machine's is set."""
        return self._grant.earliest() if self._grant else datetime.now(UTC)

    def _heartbeat(self) -> AttemptHeartbeat:
        return AttemptHeartbeat(
            progress=self.advance.progress,
            idle_seconds=self.advance.idle_seconds,
            checkpoint=self.checkpoint,
            load=load_per_core(),
            has_moved=self.advance.has_moved,
            sent_at=self._grant.latest() if self._grant else None,
        )

    def _failure(self, error: WorkError) -> ApplicationError:
        report = FailureReport(
            kind=error.kind,
            worker=self._worker,
            load=load_per_core(),
            retry_after_seconds=error.retry_after_seconds,
            checkpoint=self.checkpoint,
            progress=self.advance.progress,
        )
        activity.logger.warning("the attempt failed: %s: %s", error.kind, error.message)
        # Benign to the SDK, which would print a traceback of what was just told in a line.
        return ApplicationError(
            error.message,
            report,
            type=error.kind,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        )


def load_per_core() -> float:
    """The machine's load average of the last minute, by core, at most 4."""
    with contextlib.suppress(OSError):
        return min(os.getloadavg()[0] / (os.cpu_count() or 1), 4.0)
    return 0.0
