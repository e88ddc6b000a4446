"""Names to addresses: looked up in threads, a bounded number at a time and for a bounded time."""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from activities.callbacks.addresses import Address, address_of
from activities.threads import DaemonThreads

# Whoever owns a domain can let all lookups in it hang, and must not hold up those of others.
_LOOKUPS_OF_A_DOMAIN = 8
_LOOKUPS_AT_A_TIME = 100
_MAX_REMEMBERED = 1000
# Below these in a country's domain, such as co.uk, stand the domains of many owners.
_SHARED = frozenset({"ac", "co", "com", "edu", "gov", "ne", "net", "or", "org"})

Lookup = Callable[[str], Sequence[str]]


class Resolver(Protocol):
    """Finds the addresses of a name."""

    async def resolve(self, name: str) -> Sequence[Address]:
        """All of them, the best first; none where nobody can tell now. Never raises."""
        ...


def look_up(name: str) -> Sequence[str]:
    """Ask the system, which may take as long as it likes."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class SystemResolver:
    """Asks the system. Many who ask for one name at once make one lookup.

    A name whose lookup still hangs in its thread is not asked for again until that is over. The
    names of one domain wait for each other, and where too many domains hang there is no answer.
    """

    def __init__(self, limit_seconds: float, look_up: Lookup = look_up) -> None:
        self._limit_seconds = limit_seconds
        self._look_up = look_up
        # A domain's are there as long as it has lookups, whose threads refer to them.
        self._threads: WeakValueDictionary[str, DaemonThreads] = WeakValueDictionary()
        self._asking: dict[str, asyncio.Task[Sequence[Address]]] = {}
        self._in_threads: set[str] = set()

    async def resolve(self, name: str) -> Sequence[Address]:
        """See `Resolver.resolve`."""
        if name not in self._asking:
            if name in self._in_threads:
                return ()
            self._asking[name] = asyncio.create_task(self._ask(name))
            self._asking[name].add_done_callback(lambda _: self._asking.pop(name))
        # Shielded: one who gives up doesn't take the answer from the others.
        return await asyncio.shield(self._asking[name])

    async def _ask(self, name: str) -> Sequence[Address]:
        threads = self._threads.setdefault(_domain_of(name), DaemonThreads(_LOOKUPS_OF_A_DOMAIN))
        try:
            async with asyncio.timeout(self._limit_seconds):
                texts = await threads.run(lambda: self._look_up_in_thread(name))
        # No such name, no name server, no thread; or a name that can't be written to a server.
        except (OSError, UnicodeError):
            return ()
        # In the given order, each once. One that can't be read makes the name useless.
        addresses = [address_of(text) for text in dict.fromkeys(texts)]
        known = [address for address in addresses if address is not None]
        return known if len(known) == len(addresses) else ()

    def _look_up_in_thread(self, name: str) -> Sequence[str]:
        if len(self._in_threads) >= _LOOKUPS_AT_A_TIME:
            raise OSError(errno.EAGAIN, "too many lookups hang")
        self._in_threads.add(name)
        try:
            return self._look_up(name)
        finally:
            self._in_threads.discard(name)


def _domain_of(name: str) -> str:
    """The part of a name that has one owner, as far as that can be told without a list of all."""
    labels = name.split(".")
    is_shared = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SHARED
    return ".".join(labels[-3 if is_shared else -2 :])


class RememberingResolver:
    """Keeps answers for some seconds, also that there is none.

    For looks that decide nothing for good: whoever connects asks anew.
    """

    def __init__(
        self,
        resolver: Resolver,
        seconds: float = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resolver = resolver
        self._seconds = seconds
        self._clock = clock
        self._known: dict[str, tuple[float, Sequence[Address]]] = {}

    async def resolve(self, name: str) -> Sequence[Address]:
        """See `Resolver.resolve`."""
        at, addresses = self._known.get(name, (float("-inf"), ()))
        if self._clock() - at < self._seconds:
            return addresses
        addresses = await self._resolver.resolve(name)
        self._known.pop(name, None)
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[name] = self._clock(), addresses
        return addresses
