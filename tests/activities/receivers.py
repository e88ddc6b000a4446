"""Receivers of callbacks: real servers on loopback that answer as they are told."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from activities.callbacks.rules import CallbackRules

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Where it listens, and what it got. `connections` counts those without a request, too."""

    host: str
    port: int = 0
    connections: int = 0
    open_connections: int = 0
    requests: list[Received] = field(default_factory=list)

    @property
    def authority(self) -> str:
        """Its place in an address."""
        return f"{self.host}:{self.port}"

    @property
    def rules(self) -> CallbackRules:
        """Rules that allow it, and nothing else that isn't public."""
        return CallbackRules.parse(private_hosts=self.authority)

    def url(self, target: str = "/hook") -> str:
        """Its address without TLS."""
        return f"http://{self.authority}{target}"


def answering(status: int, *headers: str, body: bytes = b"") -> Behaviour:
    """Give one well-formed answer."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)

    return answer


def saying(data: bytes) -> Behaviour:
    """Say exactly this, and close."""

    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return say


def repeating(start: bytes, piece: bytes, every_seconds: float = 0) -> Behaviour:
    """Say the start, and then the piece again and again, as long as somebody listens."""

    async def repeat(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_seconds)

    return repeat


async def silent(writer: asyncio.StreamWriter) -> None:
    """Say nothing, and keep the connection."""
    del writer
    await asyncio.Event().wait()


async def resetting(writer: asyncio.StreamWriter) -> None:
    """Break the connection."""
    writer.transport.abort()


@asynccontextmanager
async def receiving(
    behave: Behaviour,
    *,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    name: str = "",
    is_reading: bool = True,
) -> AsyncIterator[Receiver]:
    """A receiver while inside, known by its address or by a name; all its connections end with it.

    It behaves once it has read a request, or at once.
    """
    receiver = Receiver(name or (f"[{host}]" if ":" in host else host))
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        receiver.connections += 1
        receiver.open_connections += 1
        try:
            if is_reading:
                receiver.requests.append(await _read(reader))
            await behave(writer)
            await writer.drain()
        # Whoever sends may go away at any time.
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            receiver.open_connections -= 1
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.partition(": ") for line in head[1:] if line)
    headers = {name.lower(): value for name, _, value in pairs}
    return Received(head[0], headers, await reader.readexactly(int(headers["content-length"])))
