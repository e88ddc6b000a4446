"""Ends of an attempt that somebody asks for."""

from dataclasses import dataclass
from datetime import timedelta

from activities.models import StopReason


@dataclass(frozen=True)
class StopRequest:
    """An end that was asked for. The engine is killed if it takes longer than `grace`."""

    reason: StopReason | None
    checkpoint: bool
    grace: timedelta


@dataclass(frozen=True)
class StopGraces:
    """How long an engine may take to stop, by reason. A pause waits for one long step."""

    cancel: timedelta = timedelta(seconds=3)
    pause: timedelta = timedelta(seconds=30)
    worker_stopping: timedelta = timedelta(seconds=15)
