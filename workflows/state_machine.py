"""The life of a job as one pure table: states, events, and which leads where."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from activities.values import Model


class JobState(StrEnum):
    """Where a job is. A terminal state accepts no event."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    PAUSED = "PAUSED"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT_CANCELLED = "TIMEOUT_CANCELLED"

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended, for whatever reason."""
        return not any(state is self for state, _ in TRANSITIONS)


class JobEvent(StrEnum):
    """What can happen to a job."""

    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    CANCEL = "CANCEL"
    TIMEOUT = "TIMEOUT"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    RETRY = "RETRY"


TRANSITIONS: Mapping[tuple[JobState, JobEvent], JobState] = MappingProxyType(
    {
        (JobState.PENDING, JobEvent.START): JobState.PROCESSING,
        (JobState.PENDING, JobEvent.CANCEL): JobState.CANCELLED,
        (JobState.PROCESSING, JobEvent.COMPLETE): JobState.SUCCESS,
        (JobState.PROCESSING, JobEvent.FAIL): JobState.FAILED,
        (JobState.PROCESSING, JobEvent.CANCEL): JobState.CANCELLED,
        (JobState.PROCESSING, JobEvent.TIMEOUT): JobState.TIMEOUT_CANCELLED,
        (JobState.PROCESSING, JobEvent.PAUSE): JobState.PAUSED,
        (JobState.PAUSED, JobEvent.RESUME): JobState.PENDING,
        (JobState.PAUSED, JobEvent.CANCEL): JobState.CANCELLED,
        # An attempt failed, or was lost before it could claim the job, and another follows.
        (JobState.PROCESSING, JobEvent.RETRY): JobState.PENDING,
        (JobState.PENDING, JobEvent.RETRY): JobState.PENDING,
        # A queued job is held back; its attempts are used up; it waited or paused too long.
        (JobState.PENDING, JobEvent.PAUSE): JobState.PAUSED,
        (JobState.PENDING, JobEvent.FAIL): JobState.FAILED,
        (JobState.PENDING, JobEvent.TIMEOUT): JobState.TIMEOUT_CANCELLED,
        (JobState.PAUSED, JobEvent.TIMEOUT): JobState.TIMEOUT_CANCELLED,
    }
)


class Transition(Model):
    """One step of a job's life: `source` says who, `message` says why in a user's words."""

    sequence: int
    at: datetime
    from_state: JobState
    to_state: JobState
    event: JobEvent
    source: str
    message: str


class IllegalTransitionError(Exception):
    """The event means nothing in this state; nothing was changed."""

    def __init__(self, state: JobState, event: JobEvent) -> None:
        self.state = state
        self.event = event
        allowed = ", ".join(allowed_events(state)) or "nothing: this state is final"
        super().__init__(f"{event} is not allowed in {state}; allowed now: {allowed}")


def allowed_events(state: JobState) -> tuple[JobEvent, ...]:
    """The events that change something in `state`, in the order of the table."""
    return tuple(event for source, event in TRANSITIONS if source is state)


def next_state(state: JobState, event: JobEvent) -> JobState:
    """Look the pair up in the table; raises `IllegalTransitionError` for any other pair."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransitionError(state, event) from None


def diagram() -> str:
    """The table as a Mermaid state diagram, one arrow for each pair of states."""
    events: dict[tuple[JobState, JobState], list[JobEvent]] = {}
    for (source, event), target in TRANSITIONS.items():
        events.setdefault((source, target), []).append(event)
    arrows = [
        f"    {source} --> {target}: {' / '.join(names)}"
        for (source, target), names in events.items()
    ]
    ends = [f"    {state} --> [*]" for state in JobState if state.is_terminal]
    return "\n".join(["stateDiagram-v2", "    [*] --> PENDING", *arrows, *ends])


if __name__ == "__main__":
    import sys

    sys.stdout.write(diagram() + "\n")
