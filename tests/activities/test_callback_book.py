"""The book of callbacks: many processes, one view; damage; and what is kept where."""

import asyncio
from pathlib import Path

import pytest

from activities.artifacts import LocalArtifactStore
from activities.callbacks.book import CallbackBook, RotatedTooOftenError
from activities.callbacks.signing import key_of
from activities.callbacks.tenant_files import Endpoint, TenantFiles
from activities.errors import ErrorKind, WorkError

START = 1_800_000_000.0
HOUR = 3600.0
TENANTS = ["anne", "Anne", "a@b", "a:b", "a.b", "ANNE", "_", "x" * 64]


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "artifacts")


def book_at(store: LocalArtifactStore, hours: float = 0) -> CallbackBook:
    """The book of a process that starts so many hours after the start."""
    return CallbackBook(store, lambda: START + hours * HOUR)


def kept(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "artifacts" / "config" / "callbacks"
    return sorted(path for path in folder.rglob("*") if path.is_file())


async def test_first_secret_is_made_when_it_is_needed_and_is_every_process_own(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    assert kept(tmp_path) == []
    [secret] = await book_at(store).secrets("anne")
    assert len(key_of(secret)) == 32
    assert await book_at(store, 1000).secrets("anne") == [secret]
    assert len(kept(tmp_path)) == 1


async def test_every_tenant_has_its_own_whatever_its_name(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    secrets = {(await book_at(store).secrets(tenant))[0] for tenant in TENANTS}
    assert len(secrets) == len(TENANTS)
    folders = {str(file.parent).lower() for file in kept(tmp_path)}
    assert len(folders) == len(TENANTS)


async def test_processes_that_need_the_first_secret_at_once_come_to_one_view(
    store: LocalArtifactStore,
) -> None:
    made = await asyncio.gather(*(book_at(store).secrets("anne") for _ in range(8)))
    final = await book_at(store).secrets("anne")
    assert {tuple(await book_at(store).secrets("anne")) for _ in range(3)} == {tuple(final)}
    # Whatever was shown to anybody signs.
    assert {secret for secrets in made for secret in secrets} <= set(final)


async def test_rotation_shows_a_new_secret_and_the_old_ones_sign_for_a_day(
    store: LocalArtifactStore,
) -> None:
    [first] = await book_at(store).secrets("anne")
    second = await book_at(store, 100).rotate("anne")
    assert await book_at(store, 123.9).secrets("anne") == [second, first]
    third = await book_at(store, 123.9).rotate("anne")
    assert await book_at(store, 123.9).secrets("anne") == [third, second, first]
    assert await book_at(store, 124).secrets("anne") == [third, second]
    assert await book_at(store, 147.9).secrets("anne") == [third]


async def test_rotation_needs_no_secret_before(store: LocalArtifactStore) -> None:
    secret = await book_at(store).rotate("anne")
    assert await book_at(store).secrets("anne") == [secret]


async def test_rotation_counts_also_where_clocks_differ(store: LocalArtifactStore) -> None:
    early = await book_at(store, 10).rotate("anne")
    late = await book_at(store, 9).rotate("anne")
    assert await book_at(store, 9).secrets("anne") == [late, early]


async def test_first_secret_of_a_fast_clock_gives_way_to_a_rotation(
    store: LocalArtifactStore,
) -> None:
    [first] = await book_at(store, 500).secrets("anne")
    new = await book_at(store, 0).rotate("anne")
    assert await book_at(store, 0).secrets("anne") == [new, first]


async def test_processes_that_rotate_at_once_come_to_one_view(store: LocalArtifactStore) -> None:
    made = await asyncio.gather(*(book_at(store).rotate("anne") for _ in range(5)))
    secrets = await book_at(store).secrets("anne")
    assert set(made) <= set(secrets)
    assert len(secrets) == 5


async def test_rotation_is_refused_while_too_many_sign_and_another_day_is_well(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    for _ in range(8):
        await book_at(store).rotate("anne")
    with pytest.raises(RotatedTooOftenError):
        await book_at(store, 23).rotate("anne")
    assert len(await book_at(store).secrets("anne")) == 8
    await book_at(store, 48).rotate("anne")
    # What signs no more is gone.
    assert len(kept(tmp_path)) == 2


@pytest.mark.parametrize(
    "damage",
    [b"", b"{}", b"\xff\x00", b"[]", b'{"secret": "whsec_x"}', b'{"secret": 1}', b"{" * 9999],
)
async def test_damaged_secret_counts_for_nothing_and_is_replaced(
    store: LocalArtifactStore, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    [old] = await book_at(store).secrets("anne")
    [file] = kept(tmp_path)
    file.write_bytes(damage)
    [new] = await book_at(store).secrets("anne")
    assert new != old
    assert await book_at(store).secrets("anne") == [new]
    assert "is damaged" in caplog.text
    assert "whsec_" not in caplog.text


async def test_files_of_others_among_the_secrets_are_overlooked(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    [secret] = await book_at(store).secrets("anne")
    [file] = kept(tmp_path)
    for name in (".hidden", "x.json", f"{file.name}.bak", "00000000000000-other-00.json"):
        file.with_name(name).write_bytes(file.read_bytes())
    assert await book_at(store).secrets("anne") == [secret]


async def test_endpoint_is_what_was_set_last_for_every_process(store: LocalArtifactStore) -> None:
    book = book_at(store)
    assert await book.endpoint("anne") is None
    for endpoint in (Endpoint(url="https://a.com/"), Endpoint(url="https://b.com/", events="all")):
        await book.set_endpoint("anne", endpoint)
        assert await book_at(store).endpoint("anne") == endpoint
    assert await book_at(store).endpoint("Anne") is None
    for _ in range(2):
        await book.remove_endpoint("anne")
        assert await book_at(store).endpoint("anne") is None


async def test_removing_the_endpoint_leaves_the_secret(store: LocalArtifactStore) -> None:
    book = book_at(store)
    secrets = await book.secrets("anne")
    await book.set_endpoint("anne", Endpoint(url="https://a.com/"))
    await book.remove_endpoint("anne")
    assert await book_at(store).secrets("anne") == secrets


@pytest.mark.parametrize(
    "damage", [b"", b"\x00", b'{"url": 1}', b'{"url": "https://a.com/", "events": "none"}']
)
async def test_damaged_endpoint_is_none_and_can_be_set_again(
    store: LocalArtifactStore, tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = Endpoint(url="https://a.com/?token=hunter2")
    await book_at(store).set_endpoint("anne", endpoint)
    [file] = kept(tmp_path)
    file.write_bytes(damage)
    assert await book_at(store).endpoint("anne") is None
    assert "is damaged" in caplog.text
    assert "a.com" not in caplog.text
    await book_at(store).set_endpoint("anne", endpoint)
    assert await book_at(store).endpoint("anne") == endpoint


async def test_what_is_known_is_read_once_for_many_and_own_changes_are_seen_at_once(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    book = book_at(store)
    many = await asyncio.gather(*(book.known_secrets("anne") for _ in range(100)))
    assert {tuple(secrets) for secrets in many} == {tuple(await book.secrets("anne"))}
    assert len(kept(tmp_path)) == 1
    new = await book.rotate("anne")
    assert (await book.known_secrets("anne"))[0] == new
    assert await book.known_endpoint("anne") is None
    await book.set_endpoint("anne", Endpoint(url="https://a.com/"))
    assert await book.known_endpoint("anne") == Endpoint(url="https://a.com/")
    await book.remove_endpoint("anne")
    assert await book.known_endpoint("anne") is None


async def test_what_is_known_outlives_a_store_that_fails_for_a_while(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    book = book_at(store)
    secrets = await book.known_secrets("anne")
    (tmp_path / "artifacts").rename(tmp_path / "elsewhere")
    (tmp_path / "artifacts").write_text("no folder")
    assert await book.known_secrets("anne") == secrets
    for reading in (book.secrets, book.known_endpoint, book_at(store).known_secrets):
        with pytest.raises(WorkError) as failure:
            await reading("anne")
        assert failure.value.kind is ErrorKind.STORAGE


async def test_many_rotations_at_once_make_no_more_secrets_than_one_after_another(
    store: LocalArtifactStore,
) -> None:
    book = book_at(store)
    made = await asyncio.gather(*(book.rotate("anne") for _ in range(20)), return_exceptions=True)
    refused = [error for error in made if isinstance(error, RotatedTooOftenError)]
    assert len(await book.secrets("anne")) == 8 == 20 - len(refused)
    # Nobody waits for another tenant.
    await book.rotate("bert")


async def test_no_secret_is_in_the_words_of_a_record(store: LocalArtifactStore) -> None:
    owner = TenantFiles(store, "anne")
    await owner.add_secret(1, is_rotated=False)
    [file] = await owner.secrets()
    assert file.secret not in repr(file) + str(file)
