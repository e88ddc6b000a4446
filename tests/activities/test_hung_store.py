"""A file system that hangs: nothing but the calls to its store, and these not for ever."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from activities.artifacts import ArtifactLostError, LocalArtifactStore, is_usable, put_image
from activities.errors import ErrorKind, WorkError
from activities.refs import CheckpointRef
from tests.activities.attempt_bench import IMAGE, STEPS, Bench
from tests.fakes import FakeEngine
from tests.processes import until

KEY = "checkpoints/7/1-3"
# More than a store has threads, and than asyncio's own pool on a small machine.
MANY = 24


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """A file whose reader waits until the test is over, as on a server that went away."""
    path = tmp_path / "artifacts" / KEY
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    yield path
    let_go(path)


def let_go(path: Path) -> None:
    """Let all that read the file come to its end, and nobody else begin."""
    # Nobody reads it any more, or it is gone.
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    path.unlink(missing_ok=True)


async def failure_of(store: LocalArtifactStore, key: str) -> WorkError:
    with pytest.raises(WorkError) as failure:
        await store.get(key)
    return failure.value


async def test_calls_that_hang_end_at_the_limit_and_so_do_those_that_wait_for_them(
    hung: Path, tmp_path: Path
) -> None:
    store = LocalArtifactStore(tmp_path / "artifacts", limit_seconds=0.3)
    assert await is_usable(store, 5)
    async with asyncio.timeout(10):
        failures = await asyncio.gather(*(failure_of(store, KEY) for _ in range(MANY)))
        failures.append(await failure_of(store, "jobs/8/image.png"))
        assert not await is_usable(store, 5)
    assert {failure.kind for failure in failures} == {ErrorKind.STORAGE}
    assert {failure.message for failure in failures} == {
        "the artifact store did not answer for 0.3 s"
    }


async def test_a_store_whose_calls_hang_takes_nothing_from_the_rest_of_the_process(
    hung: Path, tmp_path: Path
) -> None:
    store = LocalArtifactStore(tmp_path / "artifacts")
    calls = [asyncio.create_task(store.get(KEY)) for _ in range(MANY)]
    async with asyncio.timeout(10):
        ref = await put_image(LocalArtifactStore(tmp_path), "8", b"1", "image/png", (1, 1))
        assert ref.byte_size == 1
        other = Bench(tmp_path / "other", FakeEngine([*STEPS, IMAGE]), store_seconds=60)
        assert (await other.start()).artifact is not None
    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_store_serves_again_once_its_calls_end(hung: Path, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "artifacts", limit_seconds=0.2)
    for _ in range(2):
        await asyncio.gather(*(failure_of(store, KEY) for _ in range(MANY)))
    let_go(hung)
    patient = LocalArtifactStore(tmp_path / "artifacts", limit_seconds=20)
    await patient.put(KEY, b"state")
    await until_read(store)


async def until_read(store: LocalArtifactStore) -> None:
    """Return once the store reads what was put."""
    found = b""
    async with asyncio.timeout(10):
        while found != b"state":
            with suppress(WorkError, ArtifactLostError):
                found = await store.get(KEY)


async def test_a_checkpoint_that_cannot_be_read_fails_the_attempt_with_storage(
    hung: Path, tmp_path: Path
) -> None:
    made = Bench(tmp_path, FakeEngine([*STEPS, IMAGE]))
    report = await made.fails(CheckpointRef(key=KEY, step=3))
    assert report.kind is ErrorKind.STORAGE
    assert made.message == "the artifact store did not answer for 0.2 s"
    await until(lambda: made.leftovers == [])
