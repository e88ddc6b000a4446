"""Starting an engine's process where there is no room for it."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from activities.engines.launch import launch
from activities.errors import ErrorKind, WorkError
from tests.activities.engine_jobs import FAULTY
from tests.processes import open_files, until


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Let this process open so many files, and not one more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, limits[1]))
    try:
        with suppress(OSError):
            while True:
                held.append(os.dup(0))
        for _ in range(count):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in held:
            os.close(fd)


@pytest.mark.parametrize("count", range(6))
async def test_a_worker_without_descriptors_says_so_and_keeps_none(count: int) -> None:
    before = open_files()
    with descriptors_left(count), pytest.raises(WorkError) as failure:
        await launch(FAULTY, "mark")
    assert failure.value.kind is ErrorKind.ENGINE_UNAVAILABLE
    assert failure.value.message == "the engine's process could not start: Too many open files"
    await until(lambda: open_files() == before)
