"""What becomes of a wish: whether a job is asked at all, by the same rules for one job and many."""

from dataclasses import dataclass
from enum import StrEnum

from temporalio.service import RPCError, RPCStatusCode

from workflows.hearing import Standing
from workflows.messages import JobView
from workflows.names import SIGNAL_CANCEL, SIGNAL_PAUSE, SIGNAL_RESUME, WATCHDOG
from workflows.options import MAX_PAUSES
from workflows.state_machine import JobEvent, JobState


class Verdict(StrEnum):
    """What to do about a wish."""

    SEND = "SEND"
    ON_RECORD = "ON_RECORD"
    AS_WANTED = "AS_WANTED"
    REFUSE = "REFUSE"


@dataclass(frozen=True)
class Advice:
    """A verdict, and why where it is REFUSE."""

    verdict: Verdict
    reason: str = ""


def advise(signal: str, standing: Standing) -> Advice:
    """What to do about one more wish, given where the job stands.

    A signal that could change nothing is not sent.
    """
    judge = {SIGNAL_CANCEL: _on_cancel, SIGNAL_PAUSE: _on_pause, SIGNAL_RESUME: _on_resume}
    known = judge[signal](standing)
    if known is not None:
        return known
    if standing.is_in_flight or not standing.asked.has(signal):
        return Advice(Verdict.SEND)
    return Advice(Verdict.ON_RECORD)


def is_held(view: JobView) -> bool:
    """Whether the job is paused, and stays so."""
    return view.state is JobState.PAUSED and view.status.pending_request is None


def why_final(event: JobEvent, view: JobView) -> str:
    """Why nothing follows a final state; empty if the job is in none."""
    return _not_in(event, view) if view.state.is_terminal else ""


def has_no_signals_left(error: RPCError) -> bool:
    """Whether Temporal takes no more signals for this job, ever."""
    is_refusal = error.status is RPCStatusCode.INVALID_ARGUMENT
    return is_refusal and "limit for signal" in error.message


def _on_cancel(standing: Standing) -> Advice | None:
    return Advice(Verdict.AS_WANTED) if standing.view.state.is_terminal else None


def _on_pause(standing: Standing) -> Advice | None:
    view = standing.view
    if reason := _why_over(JobEvent.PAUSE, view):
        return Advice(Verdict.REFUSE, reason)
    if is_held(view) and not standing.is_in_flight:
        return Advice(Verdict.AS_WANTED)
    if _pauses(view) >= MAX_PAUSES and not standing.asked.wishes.resume:
        reason = f"PAUSE is not allowed: a job is paused at most {MAX_PAUSES} times."
        return Advice(Verdict.REFUSE, reason)
    return None


def _on_resume(standing: Standing) -> Advice | None:
    view = standing.view
    if reason := _why_over(JobEvent.RESUME, view):
        return Advice(Verdict.REFUSE, reason)
    if standing.is_in_flight:
        return None
    if _was_resumed(view):
        return Advice(Verdict.AS_WANTED)
    if standing.asked.refuses(SIGNAL_RESUME):
        return Advice(Verdict.REFUSE, _not_in(JobEvent.RESUME, view))
    return None


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


def _why_over(event: JobEvent, view: JobView) -> str:
    """Nothing follows a cancellation, though nobody may have heard of it yet."""
    if view.status.pending_request == "cancel":
        return (
            why_final(event, view) or f"{event} is not allowed: the job is about to be cancelled."
        )
    return why_final(event, view)


def _not_in(event: JobEvent, view: JobView) -> str:
    return f"{event} is not allowed: the job is {view.state}."
