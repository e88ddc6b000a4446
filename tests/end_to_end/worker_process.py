"""A worker.py process of its own for a test: watched, and gone with all that it started."""

import asyncio
import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.client import Client

from tests.end_to_end.stack import PROJECT
from tests.processes import descendants_of, is_running, until


@dataclass
class WorkerProcess:
    """One worker process; its log is in a file."""

    process: asyncio.subprocess.Process
    log_file: Path
    began_with: set[int] = field(default_factory=set)

    @property
    def log(self) -> str:
        """All that it has said."""
        return self.log_file.read_text()

    @property
    def identity(self) -> str:
        """How it is named in histories."""
        return self._said(r" as (\S+); health")

    @property
    def health_port(self) -> int:
        """Where it tells how it is."""
        return int(self._said(r"health on port (\d+)"))

    def _said(self, pattern: str) -> str:
        match = re.search(pattern, self.log)
        assert match is not None, self.log
        return match[1]

    async def says(self, text: str, seconds: float = 20) -> None:
        """Return once the text is in the log; fail if the process ends without it."""
        await until(lambda: text in self.log or self.process.returncode is not None, seconds)
        assert text in self.log, self.log

    async def asks(self, path: str) -> tuple[int, dict[str, object]]:
        """Status and answer of its health endpoint."""
        url = f"http://127.0.0.1:{self.health_port}{path}"
        return await asyncio.to_thread(_get, url)

    async def ends(self, number: signal.Signals, seconds: float = 20) -> int:
        """Send a signal, and return the exit code; everything that it had started is gone."""
        pids = descendants_of(self.process.pid)
        self.process.send_signal(number)
        code = await asyncio.wait_for(self.process.wait(), seconds)
        await until(lambda: not any(is_running(pid) for pid in pids), 5)
        return code


def _get(url: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


async def start_worker(
    client: Client, data_dir: Path, *arguments: str, **environ: str
) -> WorkerProcess:
    """Start a worker against the client's server; settings by their names without the prefix."""
    log_file = data_dir.parent / f"{data_dir.name}-{len(os.listdir(data_dir.parent))}.log"
    ours = {"DARKROOM_DATA_DIR": str(data_dir), "DARKROOM_HEALTH_PORT": "0"}
    ours |= {f"DARKROOM_{name}": value for name, value in environ.items()}
    address = ours.pop("DARKROOM_TEMPORAL", client.service_client.config.target_host)
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(PROJECT / "worker.py"), *arguments),
            # Somewhere else: nothing may depend on the folder that it was started in.
            cwd=data_dir.parent,
            env={
                **os.environ,
                **ours,
                "TEMPORAL_ADDRESS": address,
                "TEMPORAL_NAMESPACE": "default",
                "PYTHONPATH": str(PROJECT),
            },
            stdout=log,
            stderr=log,
        )
    return WorkerProcess(process, log_file)


@asynccontextmanager
async def worker(
    client: Client, data_dir: Path, *arguments: str, **environ: str
) -> AsyncIterator[WorkerProcess]:
    """A worker that serves inside, and is gone afterwards, however the test ended."""
    started = await start_worker(client, data_dir, *arguments, **environ)
    try:
        await started.says("serving ")
        yield started
    finally:
        if started.process.returncode is None:
            await started.ends(signal.SIGKILL)
