"""API keys and their files: what is kept, what counts, and what damage does."""

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from activities.artifacts import LocalArtifactStore
from activities.errors import WorkError
from api.key_ring import KeyRing, KeysUnknownError
from api.keys import add_key, hash_of, list_key_files, read_key, revoke_key


def ring_of(store: LocalArtifactStore) -> KeyRing:
    return KeyRing(store, may_be_open=True)


async def tenant_of(store: LocalArtifactStore, text: str | None) -> str | None:
    """Whose key it is, for a process that starts now."""
    ring = ring_of(store)
    await ring.look()
    return ring.tenant_of(text)


def file_of(tmp_path: Path, key_id: str) -> Path:
    return tmp_path / "artifacts" / "config" / "keys" / f"{key_id}.json"


async def test_key_is_kept_as_a_hash_and_shown_once(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    key, text = await add_key(store, "anne", "shop")
    assert re.fullmatch(rf"dk_{key.id}_[0-9a-f]{{64}}", text)
    kept = "".join(f.read_text() for f in (tmp_path / "artifacts").rglob("*") if f.is_file())
    assert text.rpartition("_")[2] not in kept
    assert hash_of(text) in kept
    assert await tenant_of(store, text) == "anne"


async def test_tenant_has_several_keys_until_each_is_revoked(store: LocalArtifactStore) -> None:
    (old, old_text), (_, new_text) = [await add_key(store, "anne") for _ in range(2)]
    assert await revoke_key(store, old.id)
    assert await revoke_key(store, old.id)
    assert await tenant_of(store, old_text) is None
    assert await tenant_of(store, new_text) == "anne"


async def test_key_that_is_not_there_can_not_be_revoked(store: LocalArtifactStore) -> None:
    assert not await revoke_key(store, "0" * 12)
    assert not (await list_key_files(store)).any_at_all


async def test_key_has_its_time(store: LocalArtifactStore) -> None:
    _, over = await add_key(store, "anne", lifetime=timedelta(seconds=-1))
    _, good = await add_key(store, "anne", lifetime=timedelta(days=1))
    assert await tenant_of(store, over) is None
    assert await tenant_of(store, good) == "anne"


@pytest.mark.parametrize("tenant", ["", "a b", "../x", "ä", "-a", "a\n", "a" * 65, 'a"b'])
async def test_bad_tenant_gets_no_key(store: LocalArtifactStore, tenant: str) -> None:
    with pytest.raises(ValidationError):
        await add_key(store, tenant)
    assert not (await list_key_files(store)).any_at_all


@pytest.mark.parametrize("change", ["secret", "id", "both", "case", "short", "long", "none"])
async def test_key_that_is_almost_right_is_wrong(store: LocalArtifactStore, change: str) -> None:
    (key, text), (other, other_text) = [await add_key(store, t) for t in ("anne", "bob")]
    secret = text.rpartition("_")[2]
    wrong = {
        "secret": f"dk_{key.id}_{'0' * 64}",
        "id": f"dk_{other.id}_{secret}",
        "both": f"dk_{'f' * 12}_{'f' * 64}",
        "case": text.upper(),
        "short": text[:-1],
        "long": text + "0",
        "none": None,
    }
    assert await tenant_of(store, wrong[change]) is None
    assert await tenant_of(store, other_text) == "bob"


@pytest.mark.parametrize(
    "damage",
    ["", "{", "null", "[]", '{"id": "x"}', '{"tenant": "bob"}', '{"sha256": ""}', "\0\0", "é" * 99],
)
async def test_damaged_file_counts_for_nobody_and_opens_nothing(
    store: LocalArtifactStore, tmp_path: Path, damage: str
) -> None:
    key, text = await add_key(store, "anne")
    _, other = await add_key(store, "bob")
    file = file_of(tmp_path, key.id)
    fields = json.loads(file.read_text())
    is_part = damage.startswith('{"')
    if damage == '{"tenant": "bob"}':
        damage = '{"tenant": "b b"}'
    file.write_text(json.dumps(fields | json.loads(damage)) if is_part else damage)
    ring = ring_of(store)
    await ring.look()
    assert (ring.tenant_of(text), ring.tenant_of(other), ring.is_open) == (None, "bob", False)
    assert await revoke_key(store, key.id)


async def test_file_under_another_keys_name_counts_for_nobody(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    key, text = await add_key(store, "anne")
    file = file_of(tmp_path, key.id)
    file.rename(file_of(tmp_path, "0" * 12))
    assert await tenant_of(store, text) is None
    assert await tenant_of(store, f"dk_{'0' * 12}_{text.rpartition('_')[2]}") is None


async def test_folder_in_the_place_of_a_file_spoils_only_that_key(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    key, text = await add_key(store, "anne")
    _, other = await add_key(store, "bob")
    file = file_of(tmp_path, key.id)
    file.unlink()
    file.mkdir()
    ring = ring_of(store)
    await ring.look()
    assert ring.tenant_of(other) == "bob"
    with pytest.raises(KeysUnknownError):
        ring.tenant_of(text)


async def test_anything_in_the_folder_closes_the_api(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    ring = ring_of(store)
    await ring.look()
    assert ring.is_open
    folder = file_of(tmp_path, "x").parent
    folder.mkdir(parents=True)
    (folder / "nonsense.txt").write_text("")
    ring = ring_of(store)
    await ring.look()
    assert not ring.is_open


async def test_store_that_can_not_be_read_opens_nothing(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    _, text = await add_key(store, "anne")
    folder = tmp_path / "artifacts" / "config" / "keys"
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("no folder")
    ring = ring_of(store)
    await ring.look()
    assert (ring.is_known, ring.is_open) == (False, False)
    with pytest.raises(KeysUnknownError):
        ring.tenant_of(text)
    with pytest.raises(WorkError):
        await read_key(store, "0" * 12)


async def test_keys_added_and_revoked_at_once_are_all_as_they_should_be(
    store: LocalArtifactStore,
) -> None:
    made = [await add_key(store, "anne") for _ in range(10)]
    revoked = [key.id for key, _ in made]
    answers = await asyncio.gather(
        *(revoke_key(store, key_id) for key_id in revoked * 3),
        *(add_key(store, f"tenant-{number}") for number in range(30)),
    )
    added = [answer for answer in answers if isinstance(answer, tuple)]
    assert len({key.id for key, _ in added}) == 30
    ring = ring_of(store)
    await ring.look()
    assert [ring.tenant_of(text) for _, text in made] == [None] * 10
    assert [ring.tenant_of(text) for _, text in added] == [f"tenant-{n}" for n in range(30)]
