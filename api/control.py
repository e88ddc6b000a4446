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
from workflows.asking import Verdict, advise, has_no_signals_left, is_held, why_final
from workflows.hearing import Standing
from workflows.messages import (
    SIGNAL_CANCEL,
    SIGNAL_PAUSE,
    SIGNAL_RESUME,
    ControlNote,
    JobView,
    with_status,
)
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
        return await self._ask(job_id, SIGNAL_CANCEL, message, _is_final)

    async def pause(self, job_id: str, message: str) -> JobView:
        """Pause at the next checkpoint, or take back a resume that is not yet carried out."""
        view = await self._ask(job_id, SIGNAL_PAUSE, message, is_held)
        _refuse_if_final(JobEvent.PAUSE, view)
        return view

    async def resume(self, job_id: str, message: str) -> JobView:
        """Go on with a paused job, or take back a pause that is not yet carried out."""
        view = await self._ask(job_id, SIGNAL_RESUME, message, goes_on)
        _refuse_if_final(JobEvent.RESUME, view)
        return view

    async def _ask(self, job_id: str, signal: str, message: str, is_done: IsDone) -> JobView:
        """Signal, and wait a moment for the effect; what is left is shown as pending."""
        standing = await self._jobs.read_standing(job_id)
        advice = advise(signal, standing)
        if advice.verdict is Verdict.REFUSE:
            raise IllegalTransition(advice.reason, standing.view.state)
        if advice.verdict is Verdict.AS_WANTED:
            return standing.view
        if advice.verdict is Verdict.SEND:
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


def _is_final(view: JobView) -> bool:
    return view.state.is_terminal


def _refuse_if_final(event: JobEvent, view: JobView) -> None:
    if reason := why_final(event, view):
        raise IllegalTransition(reason, view.state)
