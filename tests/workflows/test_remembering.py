"""Questions that are put once, however many ask."""

import asyncio

import pytest

from workflows.remembering import Remembered, RememberedEach


class Oracle:
    """Counts how often it was asked; fails while it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False
        self.takes = 0.0
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self) -> int:
        """The number of the question."""
        self.asked += 1
        await asyncio.sleep(self.takes)
        await self.gate.wait()
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


async def test_many_who_ask_hear_of_one_failure() -> None:
    oracle = Oracle()
    oracle.fails = True
    remembered = Remembered(oracle.ask, seconds=3600)
    answers = await asyncio.gather(*(remembered.get() for _ in range(100)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {LookupError}
    assert oracle.asked == 1


async def test_one_who_gives_up_takes_the_answer_from_nobody() -> None:
    oracle = Oracle()
    oracle.gate.clear()
    remembered = Remembered(oracle.ask, seconds=3600)
    impatient, patient = (asyncio.create_task(remembered.get()) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    oracle.gate.set()
    assert await patient == 1
    assert impatient.cancelled()


async def test_who_does_not_wait_is_told_the_last_answer() -> None:
    oracle = Oracle()
    oracle.gate.clear()
    remembered = Remembered(oracle.ask, seconds=0, rest=0)
    assert await remembered.newest_within(0.01) is None
    oracle.gate.set()
    assert await remembered.get() == 1
    oracle.gate.clear()
    assert await remembered.newest_within(0.01) == 1
    oracle.gate.set()
    assert await remembered.get() == 2


async def test_answer_that_was_asked_for_anew_is_the_others_too() -> None:
    remembered = Remembered(Oracle().ask, seconds=3600)
    assert await remembered.get() == 1
    assert await remembered.anew() == 2
    assert await remembered.get() == 2


async def test_names_have_answers_of_their_own_and_the_longest_unused_is_forgotten() -> None:
    asked: list[str] = []

    async def ask(name: str) -> str:
        asked.append(name)
        return name.upper()

    each = RememberedEach(ask, seconds=3600, most=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert await each.of(name).get() == name.upper()
    assert asked == ["a", "b", "c", "b"]
