"""What can go wrong with a job's work, and which of it is permanent.

WorkError
 └─ InvalidParametersError   the request itself can never work
"""

from enum import StrEnum


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


_PERMANENT = frozenset(
    {
        ErrorKind.INVALID_PARAMETERS,
        ErrorKind.CONTENT_REJECTED,
        ErrorKind.LABEL_NOT_FOUND,
        ErrorKind.OUTCOME_UNKNOWN,
    }
)


class WorkError(Exception):
    """A failed attempt, told so that a user understands it: no path, no traceback, no secret."""

    def __init__(
        self, kind: ErrorKind, message: str, *, retry_after_seconds: float | None = None
    ) -> None:
        """Keep `retry_after_seconds` where a provider asked for a pause of that length."""
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class InvalidParametersError(WorkError):
    """The engine can never do what the request asks."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorKind.INVALID_PARAMETERS, message)
