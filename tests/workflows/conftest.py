"""A stage for each test that needs the server, and a server whose clocks skip."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from devstack.temporal import DYNAMIC_CONFIG
from tests.servers import TEMPORAL
from tests.workflows.stage import Stage
from workflows.search_attributes import register_search_attributes


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    """Queues and jobs of this test alone; looks at their histories when the test is over."""
    stage = Stage(client)
    yield stage
    await stage.close()


@pytest.fixture
def tenant() -> str:
    """A tenant of this test's own."""
    return f"t-{uuid4().hex[:12]}"


@pytest.fixture(scope="session")
async def skipping() -> AsyncIterator[WorkflowEnvironment]:
    """A real server whose workflows' clocks skip what nobody works in."""
    dynamic = (*DYNAMIC_CONFIG, "frontend.WorkflowTimeSkippingEnabled=true")
    arguments = [word for value in dynamic for word in ("--dynamic-config-value", value)]
    async with await WorkflowEnvironment.start_time_skipping_v2(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(TEMPORAL),
        dev_server_log_level="error",
        dev_server_extra_args=arguments,
    ) as environment:
        await register_search_attributes(environment.client)
        yield environment
