"""How many jobs may wait, and how many bulk operations be open, of each tenant."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from temporalio.client import Client
from temporalio.service import RPCError

from api.outage import answered
from api.problem_documents import Problem
from api.refusals import TooManyBulks, TooManyJobs
from workflows.bulk_reading import open_bulks
from workflows.names import IMAGE_JOB_WORKFLOW
from workflows.search_attributes import JOB_STATE, JOB_TENANT, lacks_search_attributes
from workflows.state_machine import JobState

_COUNT_EVERY_SECONDS = 1.0

Clock = Callable[[], float]


@dataclass
class _Count:
    """What there is of one tenant: counted at a time, and started here since."""

    counted: int = 0
    at: float = float("-inf")
    started: int = 0
    starting: int = 0
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def total(self) -> int:
        return self.counted + self.started + self.starting


class Room:
    """Room for so many workflows of each tenant at a time; 0 is for any number.

    Other processes' starts are seen once a second, so that together they may let a few more in.
    """

    def __init__(
        self,
        most: int,
        count: Callable[[str], Awaitable[int]],
        refusal: Callable[[int], Problem],
        clock: Clock = time.monotonic,
    ) -> None:
        self._most = most
        self._count = count
        self._refusal = refusal
        self._clock = clock
        self._counts: dict[str, _Count] = {}

    @asynccontextmanager
    async def for_one(self, tenant: str) -> AsyncIterator[None]:
        """Room for what is started inside. Raises the refusal where there is none."""
        count = self._counts.setdefault(tenant, _Count())
        if self._most:
            await self._recount(tenant, count)
            if count.total >= self._most:
                raise self._refusal(self._most)
        count.starting += 1
        try:
            yield
            count.started += 1
        finally:
            count.starting -= 1

    async def _recount(self, tenant: str, count: _Count) -> None:
        # Whoever waits for it uses the count that another one asked for.
        async with count.counting:
            now = self._clock()
            if now - count.at >= _COUNT_EVERY_SECONDS:
                count.started = 0
                async with answered():
                    count.counted = await self._count(tenant)
                count.at = now


def room_for_jobs(client: Client, most: int) -> Room:
    """Room for so many jobs that wait; paused ones count, too."""

    async def count(tenant: str) -> int:
        query = (
            f'WorkflowType="{IMAGE_JOB_WORKFLOW}" AND ExecutionStatus="Running"'
            f' AND {JOB_TENANT.name}="{tenant}"'
            f' AND {JOB_STATE.name} IN ("{JobState.PENDING}", "{JobState.PAUSED}")'
        )
        try:
            return (await client.count_workflows(query)).count
        except RPCError as error:
            # The server's database is new: there are no jobs yet.
            if not lacks_search_attributes(error):
                raise
            return 0

    return Room(most, count, TooManyJobs)


def room_for_bulks(client: Client, most: int) -> Room:
    """Room for so many bulk operations that are not over.

    Each holds a place at the workers that send callbacks, too, of which there are not many.
    """

    async def count(tenant: str) -> int:
        return sum(bulk.tenant == tenant for bulk in await open_bulks(client))

    return Room(most, count, TooManyBulks)
