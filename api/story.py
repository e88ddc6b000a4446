"""A job's story as the text of an event stream (WHATWG HTML, section 9.2). Pure."""

from dataclasses import dataclass, field
from typing import Self

from api.job_schemas import TransitionEvent
from api.presenter import present_progress
from workflows.messages import JobView
from workflows.state_machine import JobState

# How long a client waits before it connects again.
_RETRY_MILLISECONDS = 2000

OPENING = f"retry: {_RETRY_MILLISECONDS}\n\n"
# A comment: proxies see that the connection lives, and clients ignore it.
KEEP_ALIVE = ": keep-alive\n\n"


@dataclass(frozen=True)
class Story:
    """What there is to tell of a job, made once for all who listen.

    `transitions` has the data of each by its sequence, in order. Two stories are equal if there is
    the same to tell.
    """

    view: JobView = field(compare=False)
    state: JobState
    transitions: dict[int, str]
    progress: str | None

    @classmethod
    def of(cls, view: JobView, before: Self | None = None) -> Self:
        """The story of a job, where the former one has what doesn't change any more."""
        known = before.transitions if before else {}
        told = {
            transition.sequence: known.get(transition.sequence)
            or TransitionEvent(job_id=view.id, **transition.model_dump()).model_dump_json()
            for transition in view.transitions
        }
        progress = present_progress(view.status)
        return cls(view, view.state, told, progress.model_dump_json() if progress else None)

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow."""
        return self.state.is_terminal

    @property
    def last(self) -> int:
        """The sequence of the newest transition; 0 before the first."""
        return max(self.transitions, default=0)


class Teller:
    """How far one client has been told: each transition once and in order, and the progress.

    Ids go on through a chain: that of a transition is its sequence, plus the last id of the jobs
    before. So one number says exactly where a client was, and for the first job it is the sequence.
    """

    def __init__(self, after: int) -> None:
        self.has_begun = False
        self.story: Story | None = None
        self._told = after
        self._before = 0
        self._progress: str | None = None

    @property
    def last(self) -> int:
        """The newest id that there is, as far as is known."""
        return self._before + (self.story.last if self.story else 0)

    @property
    def is_ahead(self) -> bool:
        """Whether the client has an id that was never given."""
        return self._told > self.last

    def is_ahead_of(self, story: Story) -> bool:
        """Whether the client has been told more than this story."""
        return self._told > self._before + story.last

    def news(self, story: Story) -> str:
        """What the client has not been told, if anything.

        The first news say how to connect again, so that there are some wherever more may follow.
        """
        self.story = story
        text = self._transitions(story) + self._new_progress(story)
        if self.has_begun or (story.is_final and not text):
            return text
        self.has_begun = True
        return OPENING + text

    def move_on(self) -> None:
        """The next story is that of the job's successor, if it has one."""
        self._before, self.story, self._progress = self.last, None, None

    def _transitions(self, story: Story) -> str:
        news = [
            (self._before + sequence, data)
            for sequence, data in story.transitions.items()
            if self._before + sequence > self._told
        ]
        self._told = max((number for number, _ in news), default=self._told)
        return "".join(f"id: {n}\nevent: transition\ndata: {data}\n\n" for n, data in news)

    def _new_progress(self, story: Story) -> str:
        """Without an id: a client that connects again names the last transition's."""
        if story.is_final or story.progress in (None, self._progress):
            return ""
        self._progress = story.progress
        return f"event: progress\ndata: {story.progress}\n\n"
