"""A worker that is told to stop where Temporal does not let go of it."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.end_to_end.worker_process import worker
from tests.processes import children_of, command_of, freeze
from tests.servers import temporal_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


async def test_worker_ends_though_nobody_answers_its_polls(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    async with temporal_server() as client:
        port = client.service_client.config.target_host.rpartition(":")[2]
        [server] = [pid for pid in children_of(os.getpid()) if f"--port {port} " in command_of(pid)]
        async with worker(client, data_dir) as process:
            freeze(server)
            try:
                code = await process.ends(signal.SIGTERM, 25)
            finally:
                os.kill(server, signal.SIGCONT)
    assert code == 0
    assert "left to themselves" in process.log
    assert list((data_dir / "tmp").glob("worker-*")) == []
