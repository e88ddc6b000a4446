"""Blocking code as an iterator: held at each report, ended when nobody listens any more."""

import threading
import time
from collections.abc import Generator

import pytest

from activities.engines.diffusers_lockstep import AbandonedError, Tell, in_lockstep


def counting(progress: list[int]) -> Generator[int, None, None]:
    def count(tell: Tell[int]) -> None:
        for number in range(1, 6):
            progress.append(number)
            tell(number)

    return in_lockstep(count)


def threads_named_lockstep() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lockstep"]


def test_all_that_is_told_is_yielded_in_order() -> None:
    assert list(counting([])) == [1, 2, 3, 4, 5]
    assert not threads_named_lockstep()


def test_the_work_stands_still_while_a_value_is_with_the_consumer() -> None:
    progress: list[int] = []
    for number in counting(progress):
        time.sleep(0.01)
        assert progress == list(range(1, number + 1))


def test_closing_ends_the_work_at_its_report() -> None:
    progress: list[int] = []
    numbers = counting(progress)
    assert next(numbers) == 1
    numbers.close()
    assert progress == [1]
    assert not threads_named_lockstep()


def test_work_that_swallows_the_end_is_told_again() -> None:
    def stubborn(tell: Tell[int]) -> None:
        for number in range(3):
            try:
                tell(number)
            except AbandonedError:
                continue

    numbers = in_lockstep(stubborn)
    next(numbers)
    numbers.close()
    assert not threads_named_lockstep()


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_the_work_raises_is_raised_in_the_consumer(kind: type[BaseException]) -> None:
    def failing(tell: Tell[int]) -> None:
        tell(1)
        raise kind("no more")

    numbers = in_lockstep(failing)
    assert next(numbers) == 1
    with pytest.raises(kind, match="no more"):
        next(numbers)
