"""Jobs and their chains as one task each, in the words of the older shape."""

from typing import Literal

from workflows.messages import ChainState, JobView
from workflows.state_machine import JobState, Transition

TaskStatus = Literal[
    "PENDING", "PROCESSING", "PAUSED", "SUCCESS", "FAILED", "CANCELLED", "TIMEOUT_CANCELLED"
]

# How much of a task is done once its first image is there, if a second job follows.
_FIRST_SHARE = 90


class Task:
    """A job together with the removal that follows it, if one does."""

    def __init__(self, first: JobView, removal: JobView | None) -> None:
        self._first = first
        self._removal = removal

    @property
    def id(self) -> str:
        """That of the first job."""
        return self._first.id

    @property
    def is_done(self) -> bool:
        """Whether nothing more will come."""
        waits = self._first.chain in (ChainState.GENERATED, ChainState.PROCESSING_WATERMARK)
        return self._first.state.is_terminal and not waits

    @property
    def unfinished(self) -> list[str]:
        """The ids of the jobs that still run."""
        jobs = [self._first, *([self._removal] if self._removal else [])]
        return [job.id for job in jobs if not job.state.is_terminal]

    @property
    def status(self) -> TaskStatus:
        """PROCESSING until the chain is done; an image whose label stays is a success, too."""
        if self._first.state is JobState.SUCCESS and not self.is_done:
            return "PROCESSING"
        return self._first.state.value

    @property
    def progress(self) -> int:
        """Percent of the whole task; 100 only with SUCCESS."""
        if self.status == "SUCCESS":
            return 100
        request = self._first.request
        if request is None or not request.wants_removal:
            return _percent(self._first)
        if self._removal is None:
            return _percent(self._first) * _FIRST_SHARE // 100
        return _FIRST_SHARE + _percent(self._removal) * (100 - _FIRST_SHARE) // 100

    @property
    def has_image(self) -> bool:
        """Whether the final image is there."""
        return self.status == "SUCCESS"

    @property
    def error(self) -> str | None:
        """Why there is no image, or why its label could not be removed."""
        if self._first.status.error is not None:
            return self._first.status.error.message
        if self._first.state is JobState.SUCCESS:
            failed = self._removal.status.error if self._removal else None
            return f"the label could not be removed: {failed.message}" if failed else None
        return self._first.transitions[-1].message if self._first.state.is_terminal else None

    @property
    def history(self) -> list[Transition]:
        """The transitions of both jobs, in order, numbered as one story."""
        both = [*self._first.transitions, *(self._removal.transitions if self._removal else ())]
        return [t.model_copy(update={"sequence": n}) for n, t in enumerate(both, 1)]


def _percent(view: JobView) -> int:
    """Never 100: that is for the end of all."""
    return min(view.status.progress.percent, 99) if view.status.progress else 0
