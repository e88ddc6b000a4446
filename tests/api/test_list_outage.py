"""Lists and figures while Temporal can't answer them."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import problem
from tests.servers import blank_server

PATHS = ["/v1/jobs", "/v1/jobs?label=a&state=FAILED", "/v1/stats", "/v1/workers", "/v1/engines"]


@pytest.fixture
async def blank() -> AsyncIterator[Client]:
    """A server where nobody has registered anything."""
    async with blank_server() as client:
        yield client


async def test_database_that_is_new_is_an_outage_that_ends(
    blank: Client, store: LocalArtifactStore
) -> None:
    async with asking(create_app(blank, store, ApiSettings())) as api:
        response = await api.get("/v1/jobs")
        problem(response, 503, "TEMPORAL_UNAVAILABLE")
        assert response.headers["retry-after"]
        async with asyncio.timeout(30):
            while (response := await api.get("/v1/jobs")).status_code == 503:
                await asyncio.sleep(0.05)
        assert response.json() == {"jobs": [], "next_page_token": ""}
        assert (await api.get("/v1/stats")).status_code == 200


@pytest.fixture
async def cut_off(store: LocalArtifactStore) -> AsyncIterator[httpx.AsyncClient]:
    """The API of a server that isn't there."""
    client = await Client.connect("127.0.0.1:1", data_converter=pydantic_data_converter, lazy=True)
    async with asking(create_app(client, store, ApiSettings())) as api:
        yield api


@pytest.mark.parametrize("path", PATHS)
async def test_server_that_is_away_is_told_as_such(cut_off: httpx.AsyncClient, path: str) -> None:
    response = await cut_off.get(path)
    problem(response, 503, "TEMPORAL_UNAVAILABLE")
    assert response.headers["retry-after"]
