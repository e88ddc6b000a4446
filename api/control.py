"""Cancelling, pausing and resuming a job, and the answer that is true whoever is alive.

What counts is not the state alone but the state with every wish that nobody has heard yet.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from temporalio.service import RPCError, RPCStatusCode

from api.jobs import Jobs
from api.outage import answered
from api.problems import IllegalTransition, SignalsUsedUp
from workflows.hearing import Standing, has_no_signals_left
from workflows.messages import (
    SIGNAL_CANCEL,
    SIGNAL_PAUSE,
    SIGNAL_RESUME,
    WATCHDOG,
    ControlNote,
    JobView,
    with_status,
)
from workflows.options import MAX_PAUSES
from workflows.state_machine import JobEvent, JobState

# How long a control call waits for its effect before it answers that the wish is on record.
CONTROL_WAIT = timedelta(seconds=2)

IsDone = Callable[[JobView], bool]


class JobControl:
    """Asks jobs to change their state. A signal that could change nothing is not sent."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def cancel(self, job_id: str, message: str) -> JobView:
        """Cancel; a finished job is left as it is."""
        standing = await self._jobs.read_standing(job_id)
        if standing.view.state.is_terminal:
            return standing.view
        return await self._ask(standing, SIGNAL_CANCEL, message, _is_final)

    async def pause(self, job_id: str, message: str) -> JobView:
        """Pause at the next checkpoint, or take back a resume that is not yet carried out."""
        standing = await self._jobs.read_standing(job_id)
        view = standing.view
        _refuse_if_over(JobEvent.PAUSE, view)
        if is_held(view) and not standing.is_in_flight:
            return view
        if _pauses(view) >= MAX_PAUSES and not standing.asked.wishes.resume:
            raise IllegalTransition(
                f"PAUSE is not allowed: a job is paused at most {MAX_PAUSES} times.", view.state
            )
        view = await self._ask(standing, SIGNAL_PAUSE, message, is_held)
        _refuse_if_final(JobEvent.PAUSE, view)
        return view

    async def resume(self, job_id: str, message: str) -> JobView:
        """Go on with a paused job, or take back a pause that is not yet carried out."""
        standing = await self._jobs.read_standing(job_id)
        view = standing.view
        _refuse_if_over(JobEvent.RESUME, view)
        if not standing.is_in_flight:
            if _was_resumed(view):
                return view
            if standing.asked.refuses(SIGNAL_RESUME):
                raise _refusal(JobEvent.RESUME, view)
        view = await self._ask(standing, SIGNAL_RESUME, message, goes_on)
        _refuse_if_final(JobEvent.RESUME, view)
        return view

    async def _ask(self, standing: Standing, signal: str, message: str, is_done: IsDone) -> JobView:
        """Signal, and wait a moment for the effect; what is left is shown as pending."""
        if standing.is_in_flight or not standing.asked.has(signal):
            await self._signal(standing.view, signal, message)
        view = await self._wait(standing, is_done)
        if is_done(view) or view.state.is_terminal or view.status.pending_request == "cancel":
            return view
        return with_status(view, pending_request=standing.asked.after(signal).pending_request)

    async def _signal(self, view: JobView, signal: str, message: str) -> None:
        handle = self._jobs.handle(view.id)
        note = ControlNote(source=self._jobs.caller.source, message=message)
        try:
            async with answered():
                await handle.signal(signal, note)
        except RPCError as error:
            # Else the job has ended in between: its final state is the answer.
            if has_no_signals_left(error):
                await self._do_without_signal(view, signal)
            elif error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def _do_without_signal(self, view: JobView, signal: str) -> None:
        """A native cancellation is none, though it can't say who asked, or why."""
        if signal != SIGNAL_CANCEL:
            raise SignalsUsedUp(
                "The job was asked so often that Temporal takes no more signals for it. "
                "It can still be cancelled.",
                view.state,
            )
        async with answered():
            await self._jobs.handle(view.id).cancel()

    async def _wait(self, standing: Standing, is_done: IsDone) -> JobView:
        view, end = standing.view, time.monotonic() + CONTROL_WAIT.total_seconds()
        if not standing.is_decided:
            return await self._jobs.read(view.id)
        while not (is_done(view) or view.state.is_terminal):
            left = end - time.monotonic()
            if left <= 0:
                break
            view = await self._jobs.read_after_change(view, timedelta(seconds=left))
        return view


def goes_on(view: JobView) -> bool:
    """Whether a resume has had its effect."""
    is_paused = view.state is JobState.PAUSED
    return not is_paused and view.status.pending_request not in ("pause", "resume")


def is_held(view: JobView) -> bool:
    """Whether the job is paused, and stays so."""
    return view.state is JobState.PAUSED and view.status.pending_request is None


def _is_final(view: JobView) -> bool:
    return view.state.is_terminal


def _was_resumed(view: JobView) -> bool:
    """Whether a resume has just been carried out: asked again, the answer is the same."""
    if view.state not in (JobState.PENDING, JobState.PROCESSING) or view.status.pending_request:
        return False
    latest = view.transitions[-2:]
    return any(t.event is JobEvent.RESUME and t.source != WATCHDOG for t in latest)


def _pauses(view: JobView) -> int:
    """How often people paused the job; a stopping worker's hand-backs are counted elsewhere."""
    pauses = [t for t in view.transitions if t.event is JobEvent.PAUSE]
    return sum(not t.source.startswith("worker:") for t in pauses)


def _refuse_if_over(event: JobEvent, view: JobView) -> None:
    """Nothing follows a cancellation, though nobody may have heard of it yet."""
    _refuse_if_final(event, view)
    if view.status.pending_request == "cancel":
        message = f"{event} is not allowed: the job is about to be cancelled."
        raise IllegalTransition(message, view.state)


def _refuse_if_final(event: JobEvent, view: JobView) -> None:
    if view.state.is_terminal:
        raise _refusal(event, view)


def _refusal(event: JobEvent, view: JobView) -> IllegalTransition:
    return IllegalTransition(f"{event} is not allowed: the job is {view.state}.", view.state)
