"""What all tests share: one real Temporal server for the session."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from devstack.temporal import DYNAMIC_CONFIG
from workflows.search_attributes import register_search_attributes

TEMPORAL = Path(sys.executable).with_name("temporal")


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A real server, started with what `make run` starts it with."""
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(TEMPORAL),
        dev_server_log_level="error",
        dev_server_extra_args=[
            argument for value in DYNAMIC_CONFIG for argument in ("--dynamic-config-value", value)
        ],
    ) as environment:
        await register_search_attributes(environment.client)
        yield environment


@pytest.fixture(scope="session")
def client(temporal: WorkflowEnvironment) -> Client:
    """A client of that server."""
    return temporal.client
