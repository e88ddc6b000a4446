"""A real HTTP server for one test, clients that read event streams, and a way that is often cut.

`ASGITransport` gives a whole answer at a time, and a stream's would come at its end.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from api.__main__ import listen
from api.patience import PatientProtocol
from tests.api.contract import is_documented, job

Json = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """One event, as a browser would dispatch it."""

    kind: str
    told: Json
    id: str | None


class _Server(uvicorn.Server):
    """Leaves the signals to the test runner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See uvicorn."""
        yield


class Serving:
    """A served application, and a client of it."""

    def __init__(self, app: FastAPI, http: httpx.AsyncClient, server: uvicorn.Server) -> None:
        self.app = app
        self.http = http
        self._server = server

    def stop(self) -> None:
        """What a signal does to `python -m api`."""
        self._server.should_exit = True
        self.app.state.stopping.set()

    def watches(self) -> int:
        """How many jobs are watched in this process, by any application."""
        return sum(task.get_name().startswith("watch ") for task in asyncio.all_tasks())


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[Serving]:
    """Serve an application over TCP, as `python -m api` does."""
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(app, http=PatientProtocol, log_config=None, log_level="warning")
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            timeout=30,
            limits=httpx.Limits(max_connections=None),
            event_hooks={"response": [is_documented(app)]},
        ) as http:
            try:
                yield Serving(app, http, server)
            finally:
                server.should_exit = True
                app.state.stopping.set()
        await task


async def create(http: httpx.AsyncClient, **fields: object) -> str:
    """The id of a new job."""
    return str(job(await http.post("/v1/jobs", json={"prompt": "a"} | fields), 202)["id"])


@asynccontextmanager
async def opened(
    http: httpx.AsyncClient, job_id: str, last: str | None = None, **query: str
) -> AsyncIterator[httpx.Response]:
    """The answer to who listens; its body is still to come."""
    headers = {"Last-Event-ID": last} if last is not None else {}
    path = f"/v1/jobs/{job_id}/events"
    async with http.stream("GET", path, headers=headers, params=query) as response:
        yield response


async def events_in(response: httpx.Response) -> AsyncGenerator[Event]:
    """The events of a stream, as they come. What is not complete at its end is none."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if not line and "data" in fields:
            yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
        if not line:
            fields = {}
        name, _, value = line.partition(": ")
        fields[name] = value


async def listen_to(
    http: httpx.AsyncClient, job_id: str, last: str | None = None, **query: str
) -> list[Event]:
    """All events of a stream that ends."""
    async with opened(http, job_id, last, **query) as response:
        return [event async for event in events_in(response)]


async def listen_in_pieces(
    http: httpx.AsyncClient, job_id: str, pieces: Callable[[], int], **query: str
) -> list[Event]:
    """All events, as a client gets them that loses its connection after a few, until it is told
    to stop; a connection that can't be made is tried again."""
    heard: list[Event] = []
    while True:
        last = next((event.id for event in reversed(heard) if event.id), None)
        with contextlib.suppress(httpx.TransportError):
            async with opened(http, job_id, last, **query) as response:
                if response.status_code == 204:
                    return heard
                assert response.status_code == 200
                left = pieces()
                async with aclosing(events_in(response)) as events:
                    async for event in events:
                        heard.append(event)
                        left -= 1
                        if not left:
                            break


def transitions(events: list[Event]) -> list[Json]:
    """What was told of transitions."""
    return [event.told for event in events if event.kind == "transition"]


def ids(events: list[Event]) -> list[int]:
    """The ids of transitions: nothing else has one."""
    assert all((event.id is not None) is (event.kind == "transition") for event in events)
    return [int(event.id) for event in events if event.id]


@asynccontextmanager
async def cutting(port: int, choose: random.Random) -> AsyncIterator[int]:
    """A port that leads to another one, where each connection is cut after some of its answer."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection("127.0.0.1", port)
        try:
            to_there.write(await reader.readuntil(b"\r\n\r\n"))
            left = choose.randrange(1, 1500)
            while left and (piece := await there.read(left)):
                writer.write(piece)
                await writer.drain()
                left -= len(piece)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            for end in (writer, to_there):
                end.close()

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
