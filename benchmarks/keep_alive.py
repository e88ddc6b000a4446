"""The least of an HTTP client: one connection that is kept, so that what is measured is the API."""

import asyncio
import json
from types import TracebackType
from typing import Any, Self


class Connection:
    """One request after another to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()

    async def get(self, path: str) -> bytes:
        """The body of a 200."""
        return await self._ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), 200)

    async def post(self, path: str, asked: Any) -> bytes:
        """The body of a 202."""
        body = json.dumps(asked).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return await self._ask(head.encode() + body, 202)

    async def _ask(self, request: bytes, wanted: int) -> bytes:
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if int(head.split(b" ", 2)[1]) != wanted:
            raise SystemExit(f"{head.decode()}{body.decode()}")
        return body
