"""Liveness, readiness, and the answers while Temporal or the store is out of reach."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionDescription,
)
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RetryConfig, RPCError, RPCStatusCode

from activities.artifacts import LocalArtifactStore
from activities.errors import ErrorKind, WorkError
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import job, problem
from tests.end_to_end.stack import free_port
from tests.processes import freeze
from tests.servers import TEMPORAL
from workflows.names import workflow_id_for
from workflows.state_machine import JobState

ROUTES = [
    ("GET", "/v1/jobs/x"),
    ("GET", "/v1/jobs/x?wait=60"),
    ("GET", "/v1/jobs/x/image"),
    ("POST", "/v1/jobs"),
    ("POST", "/v1/jobs/x/cancel"),
    ("POST", "/v1/jobs/x/pause"),
    ("POST", "/v1/jobs/x/resume"),
]


async def connect(port: int, namespace: str = "default", **options: Any) -> Client:
    """A client as `python -m api` makes one."""
    return await Client.connect(
        f"127.0.0.1:{port}",
        namespace=namespace,
        lazy=True,
        data_converter=pydantic_data_converter,
        retry_config=RetryConfig(max_elapsed_time_millis=2000),
        **options,
    )


class Server:
    """A Temporal server that can be killed, frozen, and started again on its port."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start a new one, with an empty database; it may take a moment to answer."""
        self._process = await asyncio.create_subprocess_exec(
            *(str(TEMPORAL), "server", "start-dev", "--headless", "--log-level", "error"),
            *("--ip", "127.0.0.1", "--port", str(self.port)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    def freeze(self) -> None:
        """Let it stand still."""
        assert self._process is not None
        freeze(self._process.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Not started yet; nothing of it is left."""
    server = Server()
    yield server
    await server.kill()


@pytest.fixture
async def remote(server: Server, store: LocalArtifactStore) -> AsyncIterator[httpx.AsyncClient]:
    """The API over that server."""
    app = create_app(await connect(server.port), store, ApiSettings())
    async with asking(app) as api:
        yield api


async def ask(api: httpx.AsyncClient, method: str, url: str) -> httpx.Response:
    return await api.request(method, url, json={"prompt": "a"} if url == "/v1/jobs" else None)


async def ready(api: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        while (await api.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.05)


async def refuse_all(api: httpx.AsyncClient, job_id: str) -> None:
    """Every route says that Temporal is out of reach, and says so soon."""
    begun = time.monotonic()
    routes = [(method, url.replace("/x", f"/{job_id}")) for method, url in ROUTES]
    answers = await asyncio.gather(*(ask(api, method, url) for method, url in routes))
    assert time.monotonic() - begun < 8
    for answer in answers:
        problem(answer, 503, "TEMPORAL_UNAVAILABLE")
        assert int(answer.headers["retry-after"]) >= 1
    assert (await api.get("/healthz")).json() == {"status": "ok"}
    readiness = await api.get("/readyz")
    assert readiness.status_code == 503
    assert readiness.json() == {"ready": False, "temporal": False, "store": True}
    assert int(readiness.headers["retry-after"]) >= 1


async def test_service_that_can_work_is_ready(deserted: httpx.AsyncClient) -> None:
    assert (await deserted.get("/healthz")).json() == {"status": "ok"}
    response = await deserted.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"ready": True, "temporal": True, "store": True}


async def test_every_route_is_unavailable_until_temporal_is_there(
    remote: httpx.AsyncClient, server: Server
) -> None:
    await refuse_all(remote, "x")
    await server.start()
    await ready(remote)
    job(await ask(remote, "POST", "/v1/jobs"), 202)


async def test_service_recovers_when_temporal_comes_back_with_an_empty_database(
    remote: httpx.AsyncClient, server: Server
) -> None:
    await server.start()
    await ready(remote)
    job_id = job(await ask(remote, "POST", "/v1/jobs"), 202)["id"]
    waiting = asyncio.create_task(remote.get(f"/v1/jobs/{job_id}?wait=60"))
    # Once this is answered, the wait before it has begun.
    job(await remote.get(f"/v1/jobs/{job_id}"), 200)
    await server.kill()
    problem(await asyncio.wait_for(waiting, 8), 503, "TEMPORAL_UNAVAILABLE")
    await refuse_all(remote, job_id)
    await server.start()
    await ready(remote)
    job(await ask(remote, "POST", "/v1/jobs"), 202)
    problem(await remote.get(f"/v1/jobs/{job_id}"), 404, "JOB_NOT_FOUND")


async def test_frozen_temporal_is_told_soon_and_forgotten_when_it_goes_on(
    remote: httpx.AsyncClient, server: Server
) -> None:
    await server.start()
    await ready(remote)
    job_id = job(await ask(remote, "POST", "/v1/jobs"), 202)["id"]
    server.freeze()
    await refuse_all(remote, job_id)
    server.send(signal.SIGCONT)
    await ready(remote)
    job(await remote.get(f"/v1/jobs/{job_id}"), 200)


async def test_missing_namespace_is_no_missing_job(
    deserted_client: Client, store: LocalArtifactStore
) -> None:
    port = int(deserted_client.service_client.config.target_host.rpartition(":")[2])
    app = create_app(await connect(port, namespace="nowhere"), store, ApiSettings())
    async with asking(app) as api:
        await refuse_all(api, "x")


async def test_unusable_store_is_not_ready(deserted_client: Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    app = create_app(deserted_client, LocalArtifactStore(file), ApiSettings())
    async with asking(app) as api:
        response = await api.get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"ready": False, "temporal": True, "store": False}


class HangingStore(LocalArtifactStore):
    """A network folder whose server is gone."""

    async def check(self) -> None:
        await asyncio.Event().wait()


class FullStore(LocalArtifactStore):
    """A disk without space."""

    async def check(self) -> None:
        raise WorkError(ErrorKind.STORAGE, "no space left")


@pytest.mark.parametrize("broken", [HangingStore, FullStore])
async def test_store_that_fails_or_hangs_is_not_ready(
    deserted_client: Client, tmp_path: Path, broken: type[LocalArtifactStore]
) -> None:
    async with (
        asyncio.timeout(10),
        asking(create_app(deserted_client, broken(tmp_path), ApiSettings())) as api,
    ):
        assert (await api.get("/readyz")).json()["store"] is False


class Blinding(Interceptor):
    """Temporal is lost right after a job was started."""

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return BlindOutbound(next)


class BlindOutbound(OutboundInterceptor):
    """Describes nothing."""

    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
        raise RPCError("connection reset", RPCStatusCode.UNAVAILABLE, b"")


async def test_started_job_is_told_even_if_temporal_is_lost_right_after(
    deserted_client: Client, store: LocalArtifactStore
) -> None:
    config = deserted_client.config()
    config["interceptors"] = [Blinding()]
    async with asking(create_app(Client(**config), store, ApiSettings())) as api:
        told = job(await ask(api, "POST", "/v1/jobs"), 202, JobState.PENDING)
    handle = deserted_client.get_workflow_handle(workflow_id_for(told["id"]))
    assert (await handle.describe(rpc_timeout=timedelta(seconds=5))).history_length
    assert told["request"]["prompt"] == "a"
