"""What can go wrong with a job's work, and which of it is permanent.

WorkError
 └─ InvalidParametersError   the request itself can never work
"""

import re
from enum import StrEnum

# Longer than any sentence for a user, and short enough for every place that a message goes to.
MAX_MESSAGE = 1000
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f]")
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


class ErrorKind(StrEnum):
    """The closed list of reasons that a job shows in `error.kind`."""

    INVALID_PARAMETERS = "INVALID_PARAMETERS"
    CONTENT_REJECTED = "CONTENT_REJECTED"
    LABEL_NOT_FOUND = "LABEL_NOT_FOUND"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    ENGINE_UNAVAILABLE = "ENGINE_UNAVAILABLE"
    RATE_LIMITED = "RATE_LIMITED"
    ENGINE_CRASHED = "ENGINE_CRASHED"
    ENGINE_STALLED = "ENGINE_STALLED"
    WORKER_LOST = "WORKER_LOST"
    STORAGE = "STORAGE"
    INTERNAL = "INTERNAL"
    # The two below end a job from outside its work: a limit ran out, or an operator terminated it.
    TIMEOUT = "TIMEOUT"
    TERMINATED = "TERMINATED"

    @property
    def is_permanent(self) -> bool:
        """Whether another attempt could not end differently, or must not be made."""
        return self in _PERMANENT

    @property
    def is_from_outside(self) -> bool:
        """Whether it ends a job from outside its work, and no work can have failed of it."""
        return self in (ErrorKind.TIMEOUT, ErrorKind.TERMINATED)


_PERMANENT = frozenset(
    {
        ErrorKind.INVALID_PARAMETERS,
        ErrorKind.CONTENT_REJECTED,
        ErrorKind.LABEL_NOT_FOUND,
        ErrorKind.OUTCOME_UNKNOWN,
    }
)


def one_line(text: str) -> str:
    """The text without what breaks lines, terminals, and UTF-8."""
    return _LONE_SURROGATES.sub("\N{REPLACEMENT CHARACTER}", _CONTROL_CHARACTERS.sub(" ", text))


def clean_text(text: str) -> str:
    """The text as one short line that can be sent and stored anywhere.

    An engine may say anything, and what it says must not keep its failure from being told.
    """
    return one_line(text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…")


class WorkError(Exception):
    """A failed attempt, told so that a user understands it: no path, no traceback, no secret."""

    def __init__(
        self, kind: ErrorKind, message: str, *, retry_after_seconds: float | None = None
    ) -> None:
        """Keep `retry_after_seconds` where a provider asked for a pause of that length."""
        self.kind = kind
        self.message = clean_text(message)
        super().__init__(self.message)
        self.retry_after_seconds = retry_after_seconds


class InvalidParametersError(WorkError):
    """The engine can never do what the request asks."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorKind.INVALID_PARAMETERS, message)
