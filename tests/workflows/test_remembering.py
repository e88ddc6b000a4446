"""Questions that are put once, however many ask."""

import asyncio

import pytest

from workflows.remembering import Remembered


class Oracle:
    """Counts how often it was asked; fails while it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False
        self.takes = 0.0

    async def ask(self) -> int:
        """The number of the question."""
        self.asked += 1
        await asyncio.sleep(self.takes)
        if self.fails:
            raise LookupError
        return self.asked


async def test_many_who_ask_at_once_get_one_answer() -> None:
    oracle = Oracle()
    remembered = Remembered(oracle.ask, seconds=3600)
    assert set(await asyncio.gather(*(remembered.get() for _ in range(100)))) == {1}
    assert await remembered.get() == 1


async def test_answer_that_is_too_old_is_asked_for_again() -> None:
    remembered = Remembered(Oracle().ask, seconds=0)
    async with asyncio.timeout(20):
        while await remembered.get() == 1:
            await asyncio.sleep(0.001)


async def test_question_that_takes_long_is_put_less_often() -> None:
    oracle = Oracle()
    oracle.takes = 1.0
    remembered = Remembered(oracle.ask, seconds=0)
    # Twenty seconds: far longer than these take, however slow the machine is.
    assert {await remembered.get() for _ in range(3)} == {1}


async def test_failure_is_not_remembered() -> None:
    oracle = Oracle()
    oracle.fails = True
    remembered = Remembered(oracle.ask, seconds=3600)
    with pytest.raises(LookupError):
        await remembered.get()
    oracle.fails = False
    assert await remembered.get() == 2
