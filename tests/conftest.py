"""What all tests share: one real Temporal server for the session."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from devstack.temporal import DYNAMIC_CONFIG
from tests.servers import temporal_server


@pytest.fixture(scope="session")
async def client() -> AsyncIterator[Client]:
    """A client of a real server, started with what `make run` starts it with."""
    async with temporal_server(*DYNAMIC_CONFIG) as client:
        yield client
