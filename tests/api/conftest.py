"""The application over a real server: one with workers to come, and one that nobody ever polls."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.contract import is_documented
from tests.api.streams import Serving, serving
from tests.servers import temporal_server

# Nobody works on workflows of this type.
_MARKER = "Marker"

CountWorkflows = Callable[[], Awaitable[int]]


@asynccontextmanager
async def asking(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, which fails on any undocumented answer."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport,
        base_url="http://darkroom.test",
        event_hooks={"response": [is_documented(app)]},
    ) as api:
        yield api


@pytest.fixture
def engine() -> str:
    """An engine of this test's own."""
    return f"test-{uuid4().hex[:12]}"


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "artifacts")


@pytest.fixture
async def api(
    client: Client, store: LocalArtifactStore, engine: str
) -> AsyncIterator[httpx.AsyncClient]:
    """The API over the server where tests run their workers."""
    async with asking(create_app(client, store, ApiSettings(engines=engine))) as api:
        yield api


@pytest.fixture
async def served(client: Client, store: LocalArtifactStore, engine: str) -> AsyncIterator[Serving]:
    """The same over TCP, for answers that are streamed."""
    async with serving(create_app(client, store, ApiSettings(engines=engine))) as served:
        yield served


@pytest.fixture(scope="session")
async def deserted_client() -> AsyncIterator[Client]:
    """A server that no worker has ever polled: a poller counts as alive for seconds after."""
    async with temporal_server() as client:
        yield client


@pytest.fixture(scope="session")
async def deserted(
    deserted_client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[httpx.AsyncClient]:
    """The API over that server, with the settings it has by default, and an empty store."""
    store = LocalArtifactStore(tmp_path_factory.mktemp("deserted"))
    async with asking(create_app(deserted_client, store, ApiSettings())) as api:
        yield api


@pytest.fixture
def started(deserted_client: Client) -> CountWorkflows:
    """How many workflows this test has started on the deserted server; refusals start none."""
    query = f'StartTime >= "{datetime.now(UTC).isoformat()}" AND WorkflowType != "{_MARKER}"'

    async def count() -> int:
        # Twice: what was started before the first is seen, more or less, when that one is.
        for _ in range(2):
            await _until_visibility_is_up_to_date(deserted_client)
        return (await deserted_client.count_workflows(query)).count

    return count


async def _until_visibility_is_up_to_date(client: Client) -> None:
    """It tells of a workflow a moment after its start, on a busy machine some moments."""
    marker = await client.start_workflow(_MARKER, id=uuid4().hex, task_queue="of nobody")
    async with asyncio.timeout(20):
        while not (await client.count_workflows(f'WorkflowId = "{marker.id}"')).count:
            await asyncio.sleep(0.01)


@pytest.fixture
async def sparing() -> AsyncIterator[Client]:
    """A server that takes two signals for a workflow, where others take ten thousand."""
    async with temporal_server("history.maximumSignalsPerExecution=2") as client:
        yield client
