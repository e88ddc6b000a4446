"""What is asked for often and may be some seconds old."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """The last answer to a question; however many ask, it is put once in so many seconds."""

    def __init__(self, ask: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._answer: tuple[float, T] | None = None
        # Whoever comes while the question is put waits for that answer.
        self._asking = asyncio.Lock()

    async def get(self) -> T:
        """The answer; a failure is told to whoever asked, and not remembered."""
        async with self._asking:
            if self._answer is None or time.monotonic() - self._answer[0] >= self._seconds:
                answer = await self._ask()
                self._answer = (time.monotonic(), answer)
            return self._answer[1]
