"""A stage for each test that needs the server."""

from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client

from tests.workflows.stage import Stage


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    """Queues and jobs of this test alone; looks at their histories when the test is over."""
    stage = Stage(client)
    yield stage
    await stage.close()
