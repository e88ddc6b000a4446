"""Answering whoever waits when the process is told to stop."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def unless_stopping(work: Coroutine[Any, Any, T], stopping: asyncio.Event) -> T | None:
    """What the work comes to, or None as soon as the process is to stop."""
    working = asyncio.create_task(work)
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait((working, stop), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        # Also when this request itself is given up.
        working.cancel()
        stop.cancel()
