"""What is asked for often and may be some seconds old."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


# A question that takes long is put less often: this many times as long goes by between two.
REST = 20
# Whoever doesn't answer for so long is asked anew.
_LONGEST_QUESTION_SECONDS = 30


class Remembered(Generic[T]):
    """The last answer to a question; however many ask, it is put once in so many seconds.

    `rest`: how many times as long as the question took it is left alone, if that is longer.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[T]], seconds: float, *, rest: float = REST
    ) -> None:
        self._ask = ask
        self._seconds = seconds
        self._rest = rest
        # Until when it holds, and what it is.
        self._answer: tuple[float, T] | None = None
        self._asking: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The answer; a failure is told to whoever waited for it, and not remembered."""
        if self._answer is not None and time.monotonic() < self._answer[0]:
            return self._answer[1]
        # The others wait on when one gives up.
        return await asyncio.shield(self._question())

    @property
    def has_answer(self) -> bool:
        """Whether there has been one, however old."""
        return self._answer is not None

    async def anew(self) -> T:
        """The answer to the question as it is put now, which the others are told from now on."""
        answer = await self._ask()
        self._answer = (time.monotonic() + self._seconds, answer)
        return answer

    async def newest_within(self, seconds: float) -> T | None:
        """The answer if it comes in time, and else the last one, however old; None if none is."""
        try:
            async with asyncio.timeout(seconds):
                return await self.get()
        except TimeoutError:
            return self._answer[1] if self._answer else None

    def _question(self) -> "asyncio.Task[T]":
        """The question that is being put: whoever comes meanwhile waits for the same answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._put())
            self._asking.add_done_callback(_mark_as_seen)
        return self._asking

    async def _put(self) -> T:
        began = time.monotonic()
        async with asyncio.timeout(_LONGEST_QUESTION_SECONDS):
            answer = await self._ask()
        took = time.monotonic() - began
        self._answer = (time.monotonic() + max(self._seconds, self._rest * took), answer)
        return answer


class RememberedEach(Generic[K, T]):
    """A question for each name, of which the longest unused are forgotten."""

    def __init__(
        self,
        ask: Callable[[K], Awaitable[T]],
        seconds: float,
        *,
        most: int,
        rest: float = REST,
    ) -> None:
        self._ask = ask
        self._seconds = seconds
        self._most = most
        self._rest = rest
        self._each: OrderedDict[K, Remembered[T]] = OrderedDict()

    def of(self, name: K) -> Remembered[T]:
        """The question about this one."""
        if name not in self._each:
            ask = partial(self._ask, name)
            self._each[name] = Remembered(ask, self._seconds, rest=self._rest)
        self._each.move_to_end(name)
        if len(self._each) > self._most:
            self._each.popitem(last=False)
        return self._each[name]


def _mark_as_seen(question: "asyncio.Task[T]") -> None:
    """A failure that nobody waited for any longer is nobody's."""
    if not question.cancelled():
        question.exception()
