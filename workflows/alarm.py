"""The alarm that rings once a job was worked on for as long as it may be."""

import asyncio
from datetime import timedelta

from temporalio import workflow


class Alarm:
    """One timer of the workflow at the most: setting it anew forgets the one before."""

    def __init__(self) -> None:
        self.rings = False
        self._timer: asyncio.Task[None] | None = None

    def set(self, delay: timedelta) -> None:
        """Ring after `delay`, at once if it is over."""
        self.silence()
        self._timer = asyncio.create_task(self._ring_after(max(delay, timedelta(0))))

    def silence(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self.rings = None, False

    async def _ring_after(self, delay: timedelta) -> None:
        await workflow.sleep(delay, summary="processing limit")
        self.rings = True
