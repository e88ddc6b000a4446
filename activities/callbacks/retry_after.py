"""The header `Retry-After`, which a receiver may fill with anything."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# A receiver may ask for patience, not for oblivion.
MAX_RETRY_AFTER_SECONDS = 86_400.0

_SECONDS = re.compile(rb"[0-9]+")
# Longer than any date.
_MAX_LENGTH = 64


def parse_retry_after(value: bytes, now: datetime) -> float | None:
    """Seconds from now, never more than a day; None for what is neither a number nor a date."""
    if _SECONDS.fullmatch(value):
        # Of very many digits this is infinity.
        return min(float(value), MAX_RETRY_AFTER_SECONDS)
    if len(value) > _MAX_LENGTH:
        return None
    try:
        at = parsedate_to_datetime(value.decode("ascii"))
        # A date that gives no zone means UTC, as all of them have to.
        wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    # The parser answers nonsense with any of these.
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(wait.total_seconds(), 0.0), MAX_RETRY_AFTER_SECONDS)
