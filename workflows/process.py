"""The life of a worker process: getting ready, serving, and stopping in order."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities.engine_work import EngineWork

Answer = TypeVar("Answer")

_RECONNECT_SECONDS = 1.0
_TAKEN_SECONDS = 3.0
# The SDK waits until the server has answered each open poll. A server that is frozen doesn't, nor
# does one of 1.32 where a poll and the worker's farewell cross: once in some hundred stops, and
# then never. Nothing is lost with what is left, which ends with the process.
_END_SECONDS = 5.0

logger = logging.getLogger("darkroom.worker")


@dataclass
class WorkerProcess:
    """What runs in this process, in the order in which it has to stop."""

    client: Client | None = None
    is_serving: bool = False
    work: list[Worker] = field(default_factory=list)
    engines: list[EngineWork] = field(default_factory=list)
    workflows: list[Worker] = field(default_factory=list)

    @property
    def workers(self) -> list[Worker]:
        """All Temporal workers."""
        return [*self.work, *self.workflows]

    async def is_ready(self) -> bool:
        """Whether every part is polling, and Temporal answers."""
        if self.client is None or not self.is_serving:
            return False
        try:
            answers = await self.client.service_client.check_health(timeout=timedelta(seconds=2))
        except RPCError:
            return False
        return answers and all(worker.is_running for worker in self.workers)

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until asked to stop, or until a part fails; either way jobs are handed back."""
        running = [asyncio.create_task(worker.run()) for worker in self.workers]
        self.is_serving = True
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait([asked, *running], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        self.is_serving = False
        logger.info("stopping: jobs are brought to a checkpoint and handed back")
        await self._hand_back()
        await _end(self.workflows)
        # Each tells why it failed, if it did.
        await asyncio.gather(*(task for task in running if task.done()))

    async def _hand_back(self) -> None:
        """Hand jobs back, and see them taken; only then may deciding stop."""
        at_work = [asyncio.create_task(engine.until_idle()) for engine in self.engines]
        await _end(self.work, *at_work)
        if self.workflows and self.client is not None:
            served = {run for engine in self.engines for run in engine.last_served}
            await asyncio.gather(*(_wait_until_taken(self.client, run) for run in served))


async def _end(workers: Sequence[Worker], *at_work: "asyncio.Task[None]") -> None:
    """Shut workers down; once nothing is at work, they have not long to let go of Temporal."""
    closing = [asyncio.create_task(worker.shutdown()) for worker in workers]
    if not closing:
        return
    await asyncio.gather(*at_work)
    _, left = await asyncio.wait(closing, timeout=_END_SECONDS)
    if left:
        logger.warning("Temporal does not let go of its polls, which are left to themselves")


async def _wait_until_taken(client: Client, workflow_id: str) -> None:
    """Wait, not for long, until the workflow has recorded what its attempt returned."""
    handle = client.get_workflow_handle(workflow_id)
    with contextlib.suppress(TimeoutError, RPCError):
        async with asyncio.timeout(_TAKEN_SECONDS):
            while (await handle.describe()).raw_description.HasField("pending_workflow_task"):
                await asyncio.sleep(0.02)


async def is_done_before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, unless a stop is asked for meanwhile; then it is cancelled."""
    task, asked = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
        return False
    task.result()
    return True


async def keep_trying(act: Callable[[], Awaitable[Answer]]) -> Answer:
    """Try until it works: a worker may be up before Temporal is, or before its namespace."""
    while True:
        try:
            return await act()
        except (RPCError, RuntimeError) as error:
            logger.warning("Temporal can't be used yet, trying again: %s", error)
        await asyncio.sleep(_RECONNECT_SECONDS)
