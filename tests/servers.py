"""Real Temporal servers for tests, each with a database of its own in memory."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from workflows.search_attributes import register_search_attributes

TEMPORAL = Path(sys.executable).with_name("temporal")


@asynccontextmanager
async def blank_server(*settings: str, log_level: str = "error") -> AsyncIterator[Client]:
    """A server where nobody has registered anything; `settings` as in dynamic configuration."""
    async with await WorkflowEnvironment.start_local(
        data_converter=pydantic_data_converter,
        dev_server_existing_path=str(TEMPORAL),
        dev_server_log_level=log_level,
        dev_server_extra_args=[
            word for value in settings for word in ("--dynamic-config-value", value)
        ],
    ) as environment:
        yield environment.client


@asynccontextmanager
async def temporal_server(*settings: str, log_level: str = "error") -> AsyncIterator[Client]:
    """A server that is ready for jobs."""
    async with blank_server(*settings, log_level=log_level) as client:
        await register_search_attributes(client)
        yield client
