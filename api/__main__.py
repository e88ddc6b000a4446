"""`python -m api`: serves the REST API until it is told to stop; `keys` manages its keys."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta

import uvicorn
from fastapi import FastAPI
from temporalio.client import Client

from activities.artifacts import open_store
from activities.settings import Settings, SettingsError
from api import key_commands
from api.app import create_app
from api.key_ring import KeyRing
from api.patience import PatientProtocol
from api.settings import ApiSettings
from workflows.client import connect

# Clients had better hear of an outage soon than wait for the end of it.
_RETRY_FOR = timedelta(seconds=2)
_SHUTDOWN_SECONDS = 5
_STORE_SECONDS = 10
_DESCRIPTION = "Serves the REST API, unless a command is given."

logger = logging.getLogger("darkroom.api")


class ListenError(Exception):
    """The port is taken, or the host is not this machine."""


class _Server(uvicorn.Server):
    """Ends with 0 on a signal, and before that lets the application answer whoever waits."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Uvicorn's own handlers raise the signal again at the end, which would be the exit."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        # Whoever asks twice doesn't want to wait.
        self.force_exit = self.should_exit
        self.should_exit = True
        self._stopping.set()


async def _serve(settings: ApiSettings, listener: socket.socket) -> None:
    client = await _connect()
    app: FastAPI = create_app(client, open_store(settings.artifacts_url), settings)
    await _tell_who_is_let_in(app.state.keys, settings)
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    await _Server(config, app.state.stopping).serve(sockets=[listener])


async def _tell_who_is_let_in(keys: KeyRing, settings: ApiSettings) -> None:
    """Say it once, and refuse to serve a network without keys unless that was asked for."""
    await keys.look()
    if keys.has_keys:
        logger.info("every request needs an API key")
    elif not keys.is_known:
        logger.warning("the API keys can't be read: until they can, every request is refused")
    elif not settings.may_be_open:
        raise SettingsError(
            f"DARKROOM_API_HOST: {settings.api_host} can be reached from other machines, and there "
            "are no API keys. Make one with `python -m api keys add TENANT`, or set "
            "DARKROOM_ALLOW_NO_KEYS=on if whatever is in front of the API authenticates"
        )
    elif settings.is_loopback_only:
        logger.info(
            "there are no API keys: open to this machine only, at %s, as tenant default; "
            "`python -m api keys add TENANT` makes the first one",
            settings.api_host,
        )
    else:
        logger.warning(
            "there are no API keys: open to whoever reaches %s, as DARKROOM_ALLOW_NO_KEYS says",
            settings.api_host,
        )


async def _connect() -> Client:
    try:
        return await connect(lazy=True, retry_for=_RETRY_FOR)
    # Nothing is reached yet: a profile or a certificate that isn't there, a value of no use.
    except (RuntimeError, ValueError, OSError) as error:
        raise SettingsError(f"TEMPORAL_*: {error}") from error


def listen(host: str, port: int) -> socket.socket:
    """Take the port first, so that a process that can't serve ends before it begins anything."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ListenError(f"can't listen on {host} port {port}: {error.strerror}") from error
    # asyncio sets this only on sockets that say they are TCP, which accepted ones don't: without
    # it, the second answer on a connection waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def main(arguments: Sequence[str] = ()) -> int:
    """Serve, or do what the arguments say; returns the exit code."""
    parser = argparse.ArgumentParser("python -m api", description=_DESCRIPTION)
    key_commands.add_parsers(parser.add_subparsers(dest="command", metavar="COMMAND"))
    asked = parser.parse_args(arguments)
    return _manage_keys(asked) if asked.command == "keys" else _main()


def _manage_keys(asked: argparse.Namespace) -> int:
    try:
        settings = Settings.from_environ(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"api: {error}\n")
        return 2
    return key_commands.run(asked, open_store(settings.artifacts_url, _STORE_SECONDS))


def _main() -> int:
    try:
        settings = ApiSettings.from_environ(os.environ)
        logging.basicConfig(
            level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        with listen(settings.api_host, settings.api_port) as listener:
            asyncio.run(_serve(settings, listener))
    except SettingsError as error:
        sys.stderr.write(f"api: {error}\n")
        return 2
    except ListenError as error:
        sys.stderr.write(f"api: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    sys.stdout.flush()
    # The interpreter's own way out can hang or abort while the SDK's threads still run.
    os._exit(code)
