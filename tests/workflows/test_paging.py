"""Where pages are cut, and the tokens that tell it."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.pure import START, quick
from workflows.paging import Cursor, InvalidTokenError, first_span, narrow, reach, read_token

CURSOR = Cursor(
    started_at=datetime(2026, 5, 4, 3, 2, 1, 987654, tzinfo=UTC),
    run_id="0199-run",
    asked_at=START,
    span_seconds=12.5,
)


class Times:
    """Jobs at some times, and how often they were counted."""

    def __init__(self, ages: list[float]) -> None:
        self.times = [START - timedelta(seconds=age) for age in ages]
        self.counts = 0

    async def count(self, since: datetime) -> int:
        """How many there are since then."""
        self.counts += 1
        return sum(time >= since for time in self.times)


def test_token_is_read_back_by_its_own_list() -> None:
    assert read_token(CURSOR.token("mine"), "mine") == CURSOR


def test_token_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidTokenError):
        read_token(CURSOR.token("mine"), "theirs")


@quick
@given(st.integers(min_value=0), st.characters())
def test_altered_token_is_refused(where: int, character: str) -> None:
    token = CURSOR.token("mine")
    place = where % len(token)
    altered = token[:place] + character + token[place + 1 :]
    if altered != token:
        with pytest.raises(InvalidTokenError):
            read_token(altered, "mine")


@quick
@given(st.text(st.characters(exclude_categories=())))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidTokenError):
        read_token(text, "mine")


@quick
@given(st.binary(max_size=900))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidTokenError):
        read_token(base64.urlsafe_b64encode(data).decode(), "mine")


@pytest.mark.parametrize("cut", [1, 4, 40])
def test_token_that_was_cut_or_lengthened_is_refused(cut: int) -> None:
    token = CURSOR.token("mine")
    for altered in (token[:-cut], token + "A" * cut, token + "=" * cut, " " + token):
        with pytest.raises(InvalidTokenError):
            read_token(altered, "mine")


@quick
@given(
    st.lists(st.floats(0, 10_000_000), max_size=300),
    st.integers(1, 60),
    st.floats(0, 1_000_000),
)
async def test_reach_has_enough_or_everything(ages: list[float], wanted: int, span: float) -> None:
    jobs = Times(ages)
    since = await reach(jobs.count, START, wanted, timedelta(seconds=span))
    assert since is None or await jobs.count(since) >= wanted
    if since is None:
        assert sum(age < 200 * 86_400 / 60 for age in ages) < wanted
    assert jobs.counts < 150


@pytest.mark.parametrize("spacing", [0.01, 1.0, 60.0, 3600.0])
async def test_evenly_spaced_jobs_are_reached_with_few_looks(spacing: float) -> None:
    jobs = Times([spacing * i for i in range(5000)])
    since = await reach(jobs.count, START, 51, first_span())
    assert since is not None
    assert jobs.counts <= 8
    assert 51 <= await jobs.count(since) <= 3 * 51


async def test_page_like_the_last_one_takes_one_look() -> None:
    jobs = Times([2.0 * i for i in range(5000)])
    since = await reach(jobs.count, START, 50, timedelta(seconds=100))
    assert since == START - timedelta(seconds=100)
    assert jobs.counts == 1


async def test_jobs_of_one_moment_end_the_search() -> None:
    jobs = Times([5.0] * 5000)
    since = await reach(jobs.count, START, 10, first_span())
    assert since is not None
    assert await jobs.count(since) == 5000
    assert jobs.counts < 60


async def test_oldest_are_reached_as_the_newest_are() -> None:
    ages = [10.0 * i for i in range(1000)]

    async def count_before(at: datetime) -> int:
        return sum(START - timedelta(seconds=age) < at for age in ages)

    before = await narrow(
        count_before, (START - timedelta(days=30), 0), (START + timedelta(seconds=1), 1000), 10
    )
    assert 10 <= await count_before(before) <= 30
