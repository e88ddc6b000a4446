"""How often one tenant, or one address without a key, may ask this process."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from ipaddress import IPv6Address, ip_address

from api.callers import Caller
from api.refusals import RateLimited

_MOST_BUCKETS = 10_000

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
