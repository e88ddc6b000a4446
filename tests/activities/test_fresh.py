"""Fresh: one reading for all who ask, and nobody held up by a store that hangs or fails."""

import asyncio

import pytest

from activities.errors import ErrorKind, WorkError
from activities.fresh import Fresh


class Source:
    """What is read: numbers, as soon as they are let through."""

    def __init__(self) -> None:
        self.readings = 0
        self.is_failing = False
        self.go = asyncio.Event()
        self.go.set()
        self.now = 0.0

    async def read(self) -> int:
        self.readings += 1
        await self.go.wait()
        if self.is_failing:
            raise WorkError(ErrorKind.STORAGE, "no store")
        return self.readings


@pytest.fixture
async def source() -> Source:
    return Source()


def fresh_of(source: Source) -> Fresh[int]:
    return Fresh(source.read, 2, lambda: source.now)


async def test_all_who_ask_share_one_reading(source: Source) -> None:
    fresh = fresh_of(source)
    await asyncio.gather(*(fresh.look() for _ in range(100)))
    assert (fresh.value, source.readings) == (1, 1)


async def test_value_is_read_again_once_it_is_old(source: Source) -> None:
    fresh = fresh_of(source)
    await fresh.look()
    source.now = 1.9
    await fresh.look()
    assert (fresh.value, fresh.age_seconds) == (1, 1.9)
    source.now = 2.0
    await fresh.look()
    assert (fresh.value, fresh.age_seconds) == (2, 0)


async def test_value_outlives_failures_and_grows_old(source: Source) -> None:
    fresh = fresh_of(source)
    await fresh.look()
    source.is_failing, source.now = True, 10.0
    await fresh.look()
    assert (fresh.value, fresh.age_seconds, source.readings) == (1, 10, 2)
    source.is_failing, source.now = False, 12.0
    await fresh.look()
    assert (fresh.value, fresh.age_seconds) == (3, 0)


async def test_reading_that_hangs_holds_up_nobody_for_long_and_has_none_beside_it(
    source: Source,
) -> None:
    fresh = fresh_of(source)
    source.go.clear()
    # Returns although the reading doesn't.
    await fresh.look()
    source.now = 100.0
    for _ in range(100):
        await fresh.look()
    assert (fresh.value, source.readings, fresh.age_seconds) == (None, 1, float("inf"))
    source.go.set()
    while fresh.value is None:
        await asyncio.sleep(0)
    # It is as old as its reading's begin.
    assert (fresh.value, fresh.age_seconds) == (1, 100)


async def test_who_stops_waiting_does_not_stop_the_reading(source: Source) -> None:
    fresh = fresh_of(source)
    source.go.clear()
    waiting = asyncio.create_task(fresh.look())
    while not source.readings:
        await asyncio.sleep(0)
    waiting.cancel()
    source.go.set()
    await fresh.look()
    assert (fresh.value, source.readings) == (1, 1)
