"""Retry-After: seconds or a date, and hostile values."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.callbacks.retry_after import MAX_RETRY_AFTER_SECONDS, parse_retry_after

NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"0", 0),
        (b"120", 120),
        (b"007", 7),
        (b"86400", 86_400),
        (b"86401", 86_400),
        (b"9" * 60, 86_400),
        (b"9" * 90_000, 86_400),
        (b"Wed, 21 Oct 2026 07:28:30 GMT", 30),
        (b"Wednesday, 21-Oct-26 07:28:30 GMT", 30),
        (b"Wed Oct 21 07:28:30 2026", 30),
        (b"Wed, 21 Oct 2026 09:28:30 +0200", 30),
        (b"Wed, 21 Oct 2026 07:28:30 -0000", 30),
        (b"Wed, 21 Oct 2026 07:27:00 GMT", 0),
        (b"Thu, 01 Jan 1970 00:00:00 GMT", 0),
        (b"Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
    ],
)
def test_seconds_and_dates_are_waits_of_at_most_a_day(value: bytes, seconds: float) -> None:
    assert parse_retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b" ", b"-1", b"+1", b"1.5", b"1e3", b"nan", b"NaN", b"inf", b"-inf", b"0x10"),
        *(b"soon", b"1, 2", b"1_000", b"\xd9\xa3", b"\xff", b"x" * 90_000, b"tomorrow 12:00"),
        *(b"Wed, 99 Oct 2026 07:28:30 GMT", b"Wed, 21 Oct 2026 25:61:99 GMT", b"21 Oct"),
        *(b"Wed, 21 Oct 99999 07:28:30 GMT", b"Fri, 31 Dec 9999 23:59:59 -9999", b",,, : :"),
    ],
)
def test_anything_else_is_ignored(value: bytes) -> None:
    assert parse_retry_after(value, NOW) is None


DATE_PIECES = st.sampled_from(
    [b"Wed,", b"21", b"Oct", b"2026", b"07:28:30", b"GMT", b"-", b"+9999"]
)


@settings(max_examples=300, deadline=None, database=None)
@given(st.binary(max_size=80) | st.lists(DATE_PIECES, max_size=8).map(b" ".join))
def test_no_value_makes_it_fail_or_wait_for_longer(value: bytes) -> None:
    wait = parse_retry_after(value, NOW)
    assert wait is None or 0 <= wait <= MAX_RETRY_AFTER_SECONDS
