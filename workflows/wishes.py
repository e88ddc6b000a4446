"""What people asked of a job and the job's loop has not yet done. Pure."""

from dataclasses import dataclass

from workflows.amending import MAX_AMENDMENTS, AmendNote
from workflows.notes import ControlNote
from workflows.state_machine import JobEvent, JobState, allowed_events


@dataclass
class Wishes:
    """Wishes survive until they are granted or taken back; cancel is never taken back.

    `stopping` means that the running attempt was already told to stop for the pause: from then on
    a resume can only follow the pause, not undo it. Amendments count in the order they came in.
    """

    cancel: ControlNote | None = None
    pause: ControlNote | None = None
    resume: ControlNote | None = None
    amendments: tuple[AmendNote, ...] = ()
    stopping: bool = False

    @property
    def call_for_action(self) -> bool:
        """Whether a running attempt has to be disturbed."""
        return bool(self.cancel or self.call_for_pause or self.amendments)

    @property
    def call_for_pause(self) -> bool:
        """Whether a running attempt has yet to be told to stop for a pause."""
        return self.pause is not None and not self.stopping

    @property
    def any(self) -> bool:
        """Whether a waiting job has something to look at."""
        return bool(self.cancel or self.pause or self.resume or self.amendments)

    def ask_cancel(self, note: ControlNote, state: JobState) -> str | None:
        """Note the wish; returns why it is refused, if it is."""
        if state.is_terminal:
            return _refusal(JobEvent.CANCEL, state)
        self.cancel = self.cancel or note
        return None

    def ask_pause(self, note: ControlNote, state: JobState) -> str | None:
        """Note the wish, or take back a resume that was not yet carried out."""
        if self.resume is not None:
            self.resume = None
        elif JobEvent.PAUSE not in allowed_events(state):
            return _refusal(JobEvent.PAUSE, state)
        else:
            self.pause = self.pause or note
        return None

    def ask_resume(self, note: ControlNote, state: JobState) -> str | None:
        """Note the wish, or take back a pause that was not yet begun."""
        if self.pause is not None and not self.stopping:
            self.pause = None
        elif self.pause is None and JobEvent.RESUME not in allowed_events(state):
            return _refusal(JobEvent.RESUME, state)
        else:
            self.resume = self.resume or note
        return None

    def ask_amend(self, note: AmendNote, state: JobState, amended: int) -> str | None:
        """Note the wish, for a job that was `amended` so often; returns why it is refused."""
        if state.is_terminal:
            return f"AMEND was refused: the job is {state}, which is final"
        if amended + len(self.amendments) >= MAX_AMENDMENTS:
            return f"AMEND was refused: a job is amended at most {MAX_AMENDMENTS} times"
        self.amendments = (*self.amendments, note)
        return None

    def amendments_granted(self) -> tuple[AmendNote, ...]:
        """The job is as these want it."""
        granted, self.amendments = self.amendments, ()
        return granted

    def pause_granted(self) -> ControlNote | None:
        """The job is paused: what the wish said."""
        note, self.pause, self.stopping = self.pause, None, False
        return note

    def resume_granted(self) -> None:
        """The job waits for a worker again."""
        self.resume = None


def _refusal(event: JobEvent, state: JobState) -> str:
    allowed = ", ".join(allowed_events(state)) or "nothing: this state is final"
    return f"{event} was refused: the job is {state}; allowed now: {allowed}"
