"""How much one tenant, or one address without a key, may ask of this process."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from temporalio.client import Client
from temporalio.service import RPCError

from api.callers import Caller
from api.outage import answered
from api.refusals import RateLimited, TooManyJobs
from workflows.names import IMAGE_JOB_WORKFLOW
from workflows.search_attributes import JOB_STATE, JOB_TENANT, lacks_search_attributes
from workflows.state_machine import JobState

_MOST_BUCKETS = 10_000
_COUNT_EVERY_SECONDS = 1.0

# A page that opens a hundred pictures at once is no flood.
_BURST_SECONDS = 2.0
_FAILURES_AT_ONCE = 20
_FAILURES_PER_SECOND = 1.0

Clock = Callable[[], float]


class TokenBuckets:
    """A token bucket for each name, of which the longest unused are forgotten, and so full."""

    def __init__(
        self, rate: float, burst: float, clock: Clock = time.monotonic, most: int = _MOST_BUCKETS
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, name: Hashable) -> float:
        """How long until there is a token; 0 if there is one."""
        return max(0.0, (1 - self._tokens(name)) / self._rate)

    def take(self, name: Hashable) -> float:
        """Take a token, if there is one; else how long until there is."""
        wait = self.wait_seconds(name)
        left = self._tokens(name) - (0 if wait else 1)
        self._buckets[name] = (left, self._clock())
        self._buckets.move_to_end(name)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait

    def _tokens(self, name: Hashable) -> float:
        tokens, at = self._buckets.get(name, (self._burst, 0.0))
        return min(self._burst, tokens + (self._clock() - at) * self._rate)


class RequestLimit:
    """So many requests per second for each tenant, and for each job that is reached by links."""

    def __init__(self, per_second: float, clock: Clock = time.monotonic) -> None:
        burst = max(1.0, per_second * _BURST_SECONDS)
        self._buckets = TokenBuckets(per_second, burst, clock) if per_second else None

    def count(self, caller: Caller) -> None:
        """Raises `RateLimited` for one too many."""
        wait = self._buckets.take(caller) if self._buckets else 0.0
        if wait:
            raise RateLimited("There are too many requests of this tenant at once.", wait)


class StrangerLimit:
    """So many failures to authenticate for each address; then they are told to wait.

    Only those who fail: behind one proxy, somebody with a wrong key must not shut out the others.
    To look at a key or a link costs no more than a hash, and neither can be guessed.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._failures = TokenBuckets(_FAILURES_PER_SECOND, _FAILURES_AT_ONCE, clock)

    def failed(self, address: str) -> None:
        """Somebody at this address was refused. Raises `RateLimited` for one too many."""
        wait = self._failures.take(network_of(address))
        if wait:
            raise RateLimited("There are too many requests without a valid key or link.", wait)


def network_of(address: str) -> str:
    """What one party has: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        parsed = ip_address(address.partition("%")[0])
    # A socket without an address, or what a proxy says.
    except ValueError:
        return address[:64]
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or parsed.exploded[:19])
    return str(parsed)


@dataclass
class _Count:
    """What waits of one tenant: counted at a time, and started here since."""

    counted: int = 0
    at: float = float("-inf")
    started: int = 0
    starting: int = 0
    counting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def total(self) -> int:
        return self.counted + self.started + self.starting


class WaitingJobs:
    """Room for so many waiting jobs of each tenant; paused ones count, too.

    Other processes' starts are seen once a second, so that together they may let a few more in.
    """

    def __init__(self, client: Client, most: int, clock: Clock = time.monotonic) -> None:
        self._client = client
        self._most = most
        self._clock = clock
        self._counts: dict[str, _Count] = {}

    @asynccontextmanager
    async def room_for_one(self, tenant: str) -> AsyncIterator[None]:
        """Room for the job that is started inside. Raises `TooManyJobs`."""
        count = self._counts.setdefault(tenant, _Count())
        if self._most:
            await self._recount(tenant, count)
            if count.total >= self._most:
                raise TooManyJobs(self._most)
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
                count.counted = await self._count(tenant)
                count.at = now

    async def _count(self, tenant: str) -> int:
        query = (
            f'WorkflowType="{IMAGE_JOB_WORKFLOW}" AND ExecutionStatus="Running"'
            f' AND {JOB_TENANT.name}="{tenant}"'
            f' AND {JOB_STATE.name} IN ("{JobState.PENDING}", "{JobState.PAUSED}")'
        )
        try:
            async with answered():
                return (await self._client.count_workflows(query)).count
        except RPCError as error:
            # The server's database is new: there are no jobs yet.
            if not lacks_search_attributes(error):
                raise
            return 0
