"""Times that somebody else wrote."""

from datetime import UTC, datetime

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def in_utc(at: datetime) -> datetime:
    """The same moment in UTC, where a time without a zone is taken to be already.

    A zone can move a time out of the calendar, which ends there.
    """
    if at.tzinfo is None:
        return at.replace(tzinfo=UTC)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return _LAST if at.year > 1 else _FIRST
