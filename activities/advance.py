"""How far an attempt is, and when it last moved."""

import time
from collections.abc import Callable
from datetime import datetime

from activities.models import Phase, Progress

# In the order in which an attempt goes through them.
_PHASES = tuple(Phase)
# Steps fill what is below; 100 is SUCCESS.
_PERCENT_OF_STEPS = 97
_PERCENT = {Phase.DECODE: 98, Phase.STORE: 99}


class Advance:
    """Steps, phases and percent of one attempt, and how long none of them has moved.

    `step` is the one that the attempt goes on from. The percentage never falls. `now` is the clock
    that the job's times are told by.
    """

    def __init__(self, step: int, total_steps: int, now: Callable[[], datetime]) -> None:
        self._now = now
        self._step, self._total_steps = step, total_steps
        self._percent = self._percent_of(step)
        self._furthest = Phase.LOAD
        self.begin()
        self.turn_to(Phase.LOAD)

    @property
    def progress(self) -> Progress:
        """As it was at the last step or phase."""
        return self._progress

    @property
    def idle_seconds(self) -> float:
        """Since it last moved, by the monotonic clock."""
        return time.monotonic() - self._moved_at

    @property
    def has_moved(self) -> bool:
        """Whether it got beyond what it began with."""
        return self._has_moved

    def begin(self) -> None:
        """Beginning is no progress: a job that hangs while it loads begins again and again."""
        self._move()
        self._has_moved = False

    def step_done(self, step: int, total_steps: int) -> None:
        """The work advanced, if it did this step for the first time."""
        is_further = step > self._step
        self._step, self._total_steps = step, total_steps
        self._percent = max(self._percent, self._percent_of(step))
        if is_further:
            self._move()
        self.turn_to(Phase.STEP)

    def start_over(self) -> None:
        """The steps count from the first again; the percentage stands until they have caught up."""
        self._step = 0

    def turn_to(self, phase: Phase) -> None:
        """The work goes on with this phase, maybe for the first time."""
        if _PHASES.index(phase) > _PHASES.index(self._furthest):
            self._furthest = phase
            self._move()
        self._percent = max(self._percent, _PERCENT.get(phase, 0))
        self._progress = Progress(
            percent=self._percent,
            step=self._step,
            total_steps=self._total_steps,
            phase=phase,
            at=self._moved_on,
        )

    def _move(self) -> None:
        self._moved_at, self._moved_on, self._has_moved = time.monotonic(), self._now(), True

    def _percent_of(self, step: int) -> int:
        done = _PERCENT_OF_STEPS * step // max(self._total_steps, 1)
        return max(0, min(done, _PERCENT_OF_STEPS))
