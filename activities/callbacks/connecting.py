"""Connections that end where they may: the last word on an address is that of the connection."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import httpcore

from activities.callbacks.addresses import Address, address_of
from activities.callbacks.checking import allowed_addresses
from activities.callbacks.errors import CallbackFailedError
from activities.callbacks.resolving import Resolver
from activities.callbacks.rules import CallbackRules
from activities.callbacks.urls import CallbackUrl

# A name with more of them is as good as one that answers at none of these.
_MAX_TRIED = 4

SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to one receiver, at an address that was resolved and checked for this connection.

    Between the check and the connection no name is resolved any more, and whom the connection has
    reached is compared with the address before a byte is sent.
    """

    def __init__(
        self,
        url: CallbackUrl,
        rules: CallbackRules,
        resolver: Resolver,
        network: httpcore.AsyncNetworkBackend,
    ) -> None:
        self._url = url
        self._rules = rules
        self._resolver = resolver
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """See `AsyncNetworkBackend.connect_tcp`; `host` is the one of our address."""
        del host, local_address, socket_options
        async with _limited(timeout):
            addresses = await allowed_addresses(self._url, self._rules, self._resolver)
            if not addresses:
                raise CallbackFailedError("the name of the host could not be resolved")
            return await self._connect(addresses[:_MAX_TRIED], port, timeout)

    async def _connect(
        self, addresses: Sequence[Address], port: int, timeout: float | None
    ) -> httpcore.AsyncNetworkStream:
        # One that is silent leaves time for the others.
        each = timeout / len(addresses) if timeout else None
        for address in addresses:
            try:
                stream = await self._network.connect_tcp(str(address), port, each)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            if _peer_of(stream) != address:
                await stream.aclose()
                raise CallbackFailedError("the connection led elsewhere than to the host")
            return stream
        raise CallbackFailedError("no connection could be made to the host")


def _peer_of(stream: httpcore.AsyncNetworkStream) -> Address | None:
    peer = stream.get_extra_info("server_addr")
    return address_of(str(peer[0])) if peer else None


@asynccontextmanager
async def _limited(seconds: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise CallbackFailedError(f"no connection was made within {seconds:g} s") from error
