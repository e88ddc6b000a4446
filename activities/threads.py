"""Blocking calls that may hang: a bounded number at a time, and none that holds up an exit."""

import asyncio
import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")


class DaemonThreads:
    """Runs blocking calls, each in a thread of its own, at most `limit` at a time.

    Neither asyncio's own threads nor a `ThreadPoolExecutor`: a call that hangs would take one of
    theirs away from everything else, and both are waited for on the way out of the process.
    """

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)

    async def run(self, call: Callable[[], Result]) -> Result:
        """The call's result. A caller that gives up leaves its thread taken until the call ends."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        thread = threading.Thread(target=self._run, args=(loop, answer, call), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._free.release()
            raise OSError(errno.EAGAIN, "no thread can be started") from error
        return await answer

    def _run(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: "asyncio.Future[Any]",
        call: Callable[[], object],
    ) -> None:
        result: object = None
        failure: BaseException | None = None
        try:
            result = call()
        # Whatever it is, it is the caller's.
        except BaseException as error:  # noqa: BLE001
            failure = error
        # The loop may have been closed meanwhile, and then nobody waits any longer.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._settle, answer, result, failure)

    def _settle(
        self, answer: "asyncio.Future[Any]", result: object, failure: BaseException | None
    ) -> None:
        self._free.release()
        if answer.done():
            return
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(result)
