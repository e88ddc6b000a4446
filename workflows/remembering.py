"""What is asked for often and may be some seconds old."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


# A question that takes long is put less often: this many times as long goes by between two.
_REST = 20


class Remembered(Generic[T]):
    """The last answer to a question; however many ask, it is put once in so many seconds."""

    def __init__(self, ask: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        # Until when it holds, and what it is.
        self._answer: tuple[float, T] | None = None
        # Whoever comes while the question is put waits for that answer.
        self._asking = asyncio.Lock()

    async def get(self) -> T:
        """The answer; a failure is told to whoever asked, and not remembered."""
        async with self._asking:
            if self._answer is None or time.monotonic() >= self._answer[0]:
                began = time.monotonic()
                answer = await self._ask()
                took = time.monotonic() - began
                self._answer = (time.monotonic() + max(self._seconds, _REST * took), answer)
            return self._answer[1]
