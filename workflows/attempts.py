"""Counting attempts: which ones are used up, and whether another may follow. Pure."""

import random
from collections import Counter
from datetime import timedelta

from activities.errors import ErrorKind
from activities.models import FailureReport
from workflows.messages import ImageJobInput
from workflows.options import (
    ATTEMPT_POLICIES,
    MAX_FREE_HAND_BACKS,
    MAX_OUTAGE_LOSSES,
    MAX_PAUSES,
    MAX_UNCLAIMED_LOSSES,
)


class AttemptLedger:
    """What a job has already tried."""

    def __init__(self) -> None:
        self._used = 0
        self._failures: Counter[ErrorKind] = Counter()
        self._unclaimed_losses = 0
        self._outage_losses = 0
        self._free_hand_backs = 0
        self._pauses = 0

    @property
    def current(self) -> int:
        """The number of the attempt that is running or comes next, from 1."""
        return self._used + 1

    def hand_back(self, *, has_advanced: bool) -> None:
        """A stopping worker gave the job back.

        Free if the job advanced; else it counts, lest a deploy that crashes in a loop passes a
        job on for ever.
        """
        if has_advanced and self._free_hand_backs < MAX_FREE_HAND_BACKS:
            self._free_hand_backs += 1
        else:
            self._used += 1

    @property
    def may_pause(self) -> bool:
        """Whether the job may be paused once more; bounded, so that its history stays small."""
        return self._pauses < MAX_PAUSES

    def pause(self) -> None:
        """The job was paused by a person."""
        self._pauses += 1

    def fail(self, kind: ErrorKind) -> None:
        """A claimed attempt ended with an error."""
        self._used += 1
        self._failures[kind] += 1

    def lose_unclaimed(self) -> bool:
        """An attempt was lost before its claim; whether another one may follow.

        Says nothing about the job, so it uses up no attempt, but it is bounded.
        """
        self._unclaimed_losses += 1
        return self._unclaimed_losses < MAX_UNCLAIMED_LOSSES

    def lose_to_outage(self) -> bool:
        """An attempt was lost because Temporal was out of reach; whether that was for free.

        Says nothing about the job or its worker, so it uses up no attempt, but it is bounded.
        """
        self._outage_losses += 1
        return self._outage_losses <= MAX_OUTAGE_LOSSES

    def is_used_up(self, request: ImageJobInput, kind: ErrorKind | None = None) -> bool:
        """Whether no attempt is left, after a failure of `kind` or at all."""
        if self._used >= request.max_attempts:
            return True
        return kind is not None and self._failures[kind] >= ATTEMPT_POLICIES[kind].max_attempts

    def interval(self, report: FailureReport, rng: random.Random) -> timedelta:
        """The wait before the next attempt."""
        policy = ATTEMPT_POLICIES[report.kind]
        return policy.interval(self._failures[report.kind], report, rng)

    def unclaimed_interval(self, report: FailureReport, rng: random.Random) -> timedelta:
        """The wait after a loss before the claim; the first replacement goes out at once."""
        if self._unclaimed_losses <= 1:
            return timedelta(0)
        policy = ATTEMPT_POLICIES[ErrorKind.INTERNAL]
        return policy.interval(self._unclaimed_losses - 1, report, rng)
