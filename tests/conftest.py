"""What all tests share: one real Temporal server for the session."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from devstack.temporal import DYNAMIC_CONFIG
from tests.servers import temporal_server

_END_TO_END = Path(__file__).parent / "end_to_end"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say what runs in one process, where there are two: a file, or all that starts programs.

    Those mostly wait, so that the others cost them little; beside each other they would be in
    each other's way.
    """
    for item in items:
        is_whole = item.path.is_relative_to(_END_TO_END)
        group = _END_TO_END.name if is_whole else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
async def client() -> AsyncIterator[Client]:
    """A client of a real server, started with what `make run` starts it with."""
    async with temporal_server(*DYNAMIC_CONFIG) as client:
        yield client
