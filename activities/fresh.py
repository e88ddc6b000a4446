"""A value from the artifact store that is looked at again and again, by many at once."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from activities.errors import WorkError

T = TypeVar("T")

# Whoever asks waits so long for a reading. On a store that hangs it goes on, and nobody waits.
_WAIT_SECONDS = 2.0

logger = logging.getLogger("darkroom.store")


class Fresh(Generic[T]):
    """The value as it was last read: by one reading at a time, and none unless somebody asks."""

    def __init__(
        self,
        read: Callable[[], Awaitable[T]],
        every_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.value: T | None = None
        self._read = read
        self._every = every_seconds
        self._clock = clock
        self._begun = float("-inf")
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    @property
    def age_seconds(self) -> float:
        """How old the value is, at most; infinite if there is none."""
        return self._clock() - self._read_at

    async def look(self, every_seconds: float | None = None) -> None:
        """Read again if it is time to, and wait a moment for whoever reads; never raises."""
        every = self._every if every_seconds is None else every_seconds
        now = self._clock()
        is_reading = self._reading is not None and not self._reading.done()
        if not is_reading and now - self._begun >= every:
            self._begun = now
            self._reading = asyncio.create_task(self._read_once())
        left = self._begun + _WAIT_SECONDS - now
        if self._reading is not None and not self._reading.done() and left > 0:
            await asyncio.wait({self._reading}, timeout=left)

    async def _read_once(self) -> None:
        begun = self._begun
        try:
            self.value = await self._read()
        except WorkError as error:
            logger.warning("%s", error.message)
        else:
            # What was written while it was read may be missing.
            self._read_at = begun
