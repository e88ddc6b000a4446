"""What engines can do, as workers declare it and an API reads it."""

import asyncio
import json
from pathlib import Path

import pytest

from activities.artifacts import LocalArtifactStore
from activities.declarations import (
    Declared,
    declaration_key,
    declare,
    keep_declaring,
    read_declaration,
)
from activities.engines.base import Capabilities, capabilities_of
from activities.engines.procedural import ProceduralEngine
from activities.errors import ErrorKind, WorkError
from tests.fakes import FakeEngine

CAN = Capabilities(seed=True, checkpoint=True)
TOLD = Declared(seed=True, progress=False, checkpoint=True, targeted_cancel=False, reconcile=False)


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "artifacts")


async def test_declaration_is_read_as_it_was_made(store: LocalArtifactStore) -> None:
    await declare(store, "fake", CAN)
    assert await read_declaration(store, "fake") == TOLD
    assert await read_declaration(store, "other") == Declared()


async def test_the_same_in_other_words_is_not_written_again(store: LocalArtifactStore) -> None:
    words = TOLD.model_dump_json().encode()
    await store.put(declaration_key("fake"), words)
    await declare(store, "fake", CAN)
    assert await store.get(declaration_key("fake")) == words


async def test_whoever_started_last_is_believed(store: LocalArtifactStore) -> None:
    await declare(store, "fake", CAN)
    await declare(store, "fake", Capabilities(reconcile=True))
    told = await read_declaration(store, "fake")
    assert (told.seed, told.reconcile) == (False, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (b'{"seed": true}', Declared(seed=True)),
        (b'{"seed": true, "undo": true}', Declared(seed=True)),
        (b'{"seed": 1, "progress": "yes", "reconcile": false}', Declared(reconcile=False)),
    ],
)
async def test_of_another_builds_words_what_is_plain_counts(
    store: LocalArtifactStore, words: bytes, told: Declared
) -> None:
    await store.put(declaration_key("fake"), words)
    assert await read_declaration(store, "fake") == told


@pytest.mark.parametrize(
    "words", [b"", b"{", b"[true]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"seed": 1e999']
)
async def test_damaged_file_tells_nothing_and_is_mended(
    store: LocalArtifactStore, words: bytes
) -> None:
    await store.put(declaration_key("fake"), words)
    assert await read_declaration(store, "fake") == Declared()
    await declare(store, "fake", CAN)
    assert await read_declaration(store, "fake") == TOLD


async def test_engine_is_declared_once_it_is_loaded_and_the_store_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "artifacts"
    root.touch()
    store, engine = LocalArtifactStore(root), FakeEngine([])
    engine.capabilities = None
    declaring = asyncio.create_task(keep_declaring(store, [engine], again_seconds=0.01))
    async with asyncio.timeout(20):
        engine.capabilities = CAN
        while "not declared yet" not in caplog.text:
            await asyncio.sleep(0.01)
        with pytest.raises(WorkError) as failure:
            await read_declaration(store, "fake")
        assert failure.value.kind is ErrorKind.STORAGE
        root.unlink()
        await declaring
    assert await read_declaration(store, "fake") == TOLD
    assert "fake" in caplog.text


class Boastful(ProceduralEngine):
    """Says what it can do in words of its own."""

    capabilities = json.loads('{"everything": true}')


class Secretive(ProceduralEngine):
    """Fails when it is asked."""

    @property
    def capabilities(self) -> Capabilities:
        raise RuntimeError("not your business")


def test_engine_that_does_not_tell_properly_tells_nothing() -> None:
    assert capabilities_of(Boastful()) is None
    assert capabilities_of(Secretive()) is None
    assert capabilities_of(ProceduralEngine()) == ProceduralEngine().capabilities
