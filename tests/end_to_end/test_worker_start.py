"""How a worker process starts, says how it is, and refuses what it can't use."""

import asyncio
import fcntl
import signal
import socket
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.declarations import declaration_key, read_declaration
from activities.engines.procedural import ProceduralEngine
from tests.activities.outage import relaying_to
from tests.end_to_end.worker_process import WorkerProcess, start_worker, worker
from tests.processes import open_files_of, until


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


DECLARATION = declaration_key("procedural")


async def ended(process: WorkerProcess) -> int:
    """The exit code of a worker that ends by itself."""
    return await asyncio.wait_for(process.process.wait(), 20)


async def test_health_tells_alive_and_ready_also_beside_a_taken_port(
    client: Client, data_dir: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        async with worker(client, data_dir, HEALTH_PORT=port) as process:
            assert process.health_port != int(port)
            assert await process.asks("/healthz") == (200, {"status": "alive"})
            await until_ready(process)


async def until_ready(process: WorkerProcess) -> None:
    async with asyncio.timeout(20):
        while await process.asks("/readyz") != (200, {"ready": True}):
            await asyncio.sleep(0.05)


async def test_a_worker_whose_store_is_out_of_reach_is_not_ready(
    client: Client, data_dir: Path
) -> None:
    async with worker(client, data_dir) as process:
        await until_ready(process)
        artifacts = data_dir / "artifacts"
        # The last that it writes by itself.
        await until((artifacts / DECLARATION).exists)
        artifacts.rename(data_dir / "gone")
        artifacts.touch()
        assert await process.asks("/readyz") == (503, {"ready": False})
        assert await process.asks("/healthz") == (200, {"status": "alive"})
        artifacts.unlink()
        await until_ready(process)


async def test_a_worker_serves_also_where_it_cannot_tell_what_its_engines_can_do(
    client: Client, data_dir: Path
) -> None:
    in_the_way = (data_dir / "artifacts" / DECLARATION).parent
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    async with worker(client, data_dir) as process:
        await until_ready(process)
        await process.says("what the engine procedural can do is not declared yet")
        in_the_way.unlink()
        await until((data_dir / "artifacts" / DECLARATION).exists, 20)
    told = await read_declaration(LocalArtifactStore(data_dir / "artifacts"), "procedural")
    assert told.model_dump() == asdict(ProceduralEngine().capabilities)


async def test_a_worker_waits_for_temporal_and_then_serves(client: Client, data_dir: Path) -> None:
    host, _, port = client.service_client.config.target_host.partition(":")
    async with relaying_to(host, int(port)) as address:
        pass
    process = await start_worker(client, data_dir, TEMPORAL=address)
    try:
        await process.says("can't be used yet")
        assert (await process.asks("/healthz"))[0] == 200
        assert await process.asks("/readyz") == (503, {"ready": False})
        async with relaying_to(host, int(port), int(address.rpartition(":")[2])):
            await process.says("serving ")
            assert await process.ends(signal.SIGTERM) == 0
    finally:
        if process.process.returncode is None:
            await process.ends(signal.SIGKILL)


async def test_a_worker_that_waits_for_another_ones_start_is_alive_and_stops_when_asked(
    client: Client, data_dir: Path
) -> None:
    (data_dir / "tmp").mkdir()
    with (data_dir / "tmp/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = await start_worker(client, data_dir)
        try:
            await process.says("health on port")
            # Made before anything of its own is: it is about to take the lock, or waits for it.
            await until(lambda: str(data_dir / "tmp/.lock") in open_files_of(process.process.pid))
            assert (await process.asks("/healthz"))[0] == 200
            assert await process.ends(signal.SIGTERM) == 0
        finally:
            if process.process.returncode is None:
                await process.ends(signal.SIGKILL)


async def test_a_worker_that_waits_for_temporal_stops_when_asked(
    client: Client, data_dir: Path
) -> None:
    async with relaying_to("127.0.0.1", 9) as nowhere:
        pass
    process = await start_worker(client, data_dir, TEMPORAL=nowhere)
    await process.says("can't be used yet")
    began = time.monotonic()
    assert await process.ends(signal.SIGTERM) == 0
    assert time.monotonic() - began < 3


async def test_a_worker_that_loads_a_model_is_alive_not_ready_and_stops_when_asked(
    client: Client, data_dir: Path
) -> None:
    slow = "slow=tests.faulty_engine:SlowLoadEngine"
    process = await start_worker(client, data_dir, ENGINES=slow)
    await until(lambda: bool(list((data_dir / "tmp").glob("worker-*"))))
    assert (await process.asks("/healthz"))[0] == 200
    assert (await process.asks("/readyz"))[0] == 503
    began = time.monotonic()
    assert await process.ends(signal.SIGINT) == 0
    assert time.monotonic() - began < 3
    assert not list((data_dir / "tmp").glob("worker-*"))


@pytest.mark.parametrize(
    "parts", ["workflows", "generate", "postprocess", " workflows , generate "]
)
async def test_a_worker_serves_the_parts_that_it_is_told(
    client: Client, data_dir: Path, parts: str
) -> None:
    # Never idle for long: nothing but a log line is waited for.
    async with worker(client, data_dir, "--serve", parts, ENGINES="idle=a.b:C") as process:
        await until_ready(process)
        assert await process.ends(signal.SIGTERM) == 0


@pytest.mark.parametrize("parts", ["", "everything", "workflows;generate", "generate,x"])
async def test_an_unknown_part_is_refused_with_the_known_ones(
    client: Client, data_dir: Path, parts: str
) -> None:
    process = await start_worker(client, data_dir, "--serve", parts)
    assert await ended(process) == 2
    assert "choose from workflows, generate, postprocess" in process.log


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("ENGINES", "nobody", "DARKROOM_ENGINES: no engine nobody is built in"),
        ("ENGINES", "a=b", "DARKROOM_ENGINES: "),
        ("GRACE_SECONDS", "-1", "DARKROOM_GRACE_SECONDS: "),
        ("STORE_URL", "ftp://x", "DARKROOM_STORE_URL: "),
        ("DATA_DIR", "/dev/null/x", "DARKROOM_DATA_DIR: Not a directory"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_refused_by_name(
    client: Client, data_dir: Path, setting: str, value: str, message: str
) -> None:
    process = await start_worker(client, data_dir, **{setting: value})
    assert await ended(process) == 2
    assert f"worker: {message}" in process.log
    assert "Traceback" not in process.log
