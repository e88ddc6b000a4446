"""Percentiles and waits, without a server."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.pure import START, quick
from workflows.stats import Percentiles, percentiles, waited_seconds

SECONDS = st.floats(0, 1e9)


def test_percentiles_are_by_nearest_rank() -> None:
    assert percentiles(range(1, 101)) == Percentiles(p50=50, p95=95, p99=99)
    assert percentiles([3.0]) == Percentiles(p50=3, p95=3, p99=3)
    assert percentiles([]) == Percentiles(p50=None, p95=None, p99=None)


@quick
@given(st.lists(SECONDS, min_size=1))
def test_percentile_is_one_of_the_durations_and_so_many_are_no_longer(seconds: list[float]) -> None:
    told = percentiles(seconds)
    for share, value in ((0.5, told.p50), (0.95, told.p95), (0.99, told.p99)):
        assert value in seconds
        assert sum(s <= value for s in seconds) >= share * len(seconds)


def test_wait_ends_with_the_first_attempt() -> None:
    started = START + timedelta(seconds=7)
    assert waited_seconds(START, {"status": {"started_at": started.isoformat()}}) == 7


def test_delay_that_was_asked_for_is_no_wait() -> None:
    memo = {
        "status": {"started_at": (START + timedelta(seconds=100)).isoformat()},
        "request": {"start_at": (START + timedelta(seconds=98)).isoformat()},
    }
    assert waited_seconds(START, memo) == 2


@pytest.mark.parametrize(
    "memo",
    [
        {},
        {"status": None},
        {"status": {"started_at": None}},
        {"status": {"started_at": "noon"}},
        {"status": {"started_at": "2026-01-01T00:00:00Z"}, "request": 7},
        {"status": {"started_at": "2026-01-01T00:00:00Z"}, "request": {"start_at": 7}},
    ],
)
def test_job_that_never_began_or_cannot_be_read_has_no_wait(memo: dict[str, Any]) -> None:
    assert waited_seconds(START, memo) is None
