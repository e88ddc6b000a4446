"""A Temporal server and our processes for benchmarks, on free ports, in a temporary folder."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import httpx
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from devstack.temporal import DYNAMIC_CONFIG
from workflows.search_attributes import register_search_attributes

PROJECT = Path(__file__).resolve().parents[1]


@asynccontextmanager
async def temporal_server(folder: Path, *options: str) -> AsyncIterator[WorkflowEnvironment]:
    """The server as `make run` starts it, with its database in `folder`, and options of ours."""
    dynamic = [a for value in DYNAMIC_CONFIG for a in ("--dynamic-config-value", value)]
    pragmas = [
        a
        for value in ("journal_mode=wal", "synchronous=normal")
        for a in ("--sqlite-pragma", value)
    ]
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(Path(sys.executable).with_name("temporal")),
        dev_server_database_filename=str(folder / "temporal.db"),
        dev_server_log_level="error",
        dev_server_extra_args=[*pragmas, *dynamic, *options],
    ) as environment:
        await register_search_attributes(environment.client)
        yield environment


@contextmanager
def process(*command: str, address: str, folder: Path, **settings: str) -> Iterator[int]:
    """A child process of ours, ended by SIGTERM; gives its id. Its output goes to a file."""
    environ = os.environ | {
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": "default",
        "DARKROOM_DATA_DIR": str(folder / "data"),
        "DARKROOM_HEALTH_PORT": "0",
        "DARKROOM_LOG_LEVEL": "WARNING",
        **settings,
    }
    with ExitStack() as stack:
        log = stack.enter_context((folder / "processes.log").open("ab"))
        child = subprocess.Popen(
            [sys.executable, *command], cwd=PROJECT, env=environ, stdout=log, stderr=log
        )
        try:
            yield child.pid
        finally:
            child.terminate()
            child.wait(60)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="darkroom-benchmark-") as name:
        yield Path(name)


async def until_ready(client: httpx.AsyncClient, url: str = "") -> None:
    """Return when a process of ours serves; `url` is its root, if the client has another one."""
    while True:
        with suppress(httpx.TransportError):
            if (await client.get(f"{url}/readyz")).status_code == 200:
                return
        await asyncio.sleep(0.05)


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
