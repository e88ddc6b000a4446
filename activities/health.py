"""The health endpoint of a worker process: is it alive, and does it serve?"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


class _Server(uvicorn.Server):
    """Leaves the signals to the worker, which has more to end than this."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serve_health(
    host: str, port: int, is_ready: Callable[[], Awaitable[bool]]
) -> AsyncIterator[int]:
    """Serve `/healthz` and `/readyz` while inside; gives the port.

    A port that is taken gives way to any free one: a second worker on a machine must not fail
    for it.
    """
    listener = _listen(host, port)
    app = Starlette(routes=[Route("/healthz", _alive), Route("/readyz", _ready)])
    app.state.is_ready = is_ready
    config = uvicorn.Config(
        app, log_config=None, log_level="warning", access_log=False, lifespan="off"
    )
    server = _Server(config)
    async with _running(server, listener):
        yield listener.getsockname()[1]


@contextlib.asynccontextmanager
async def _running(server: uvicorn.Server, listener: socket.socket) -> AsyncIterator[None]:

    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await task
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError:
        return socket.create_server((host, 0))


async def _alive(request: Request) -> JSONResponse:
    return JSONResponse({"status": "alive"})


async def _ready(request: Request) -> JSONResponse:
    ready = await request.app.state.is_ready()
    return JSONResponse({"ready": ready}, status_code=200 if ready else 503)
