"""A way to a server that can be cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def relaying_to(host: str, port: int, own_port: int = 0) -> AsyncIterator[str]:
    """An address that leads to the server; leaving cuts all connections and refuses new ones."""
    relays: set[asyncio.Task[None]] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, port)
        for source, sink in ((reader, there_writer), (there_reader, writer)):
            relays.add(asyncio.create_task(_copy(source, sink)))

    server = await asyncio.start_server(relay, "127.0.0.1", own_port)
    try:
        address, bound_port = server.sockets[0].getsockname()
        yield f"{address}:{bound_port}"
    finally:
        server.close()
        for task in relays:
            task.cancel()
        await asyncio.gather(*relays, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
    except ConnectionError:
        return
    finally:
        sink.close()
        with suppress(ConnectionError):
            await sink.wait_closed()
