"""The artifact store: whole files or none, under keys of their own, with errors in plain words."""

import asyncio
import hashlib
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from activities.artifacts import (
    ArtifactLostError,
    LocalArtifactStore,
    get_image,
    open_store,
    put_checkpoint,
    put_image,
)
from activities.errors import ErrorKind, WorkError
from activities.refs import CheckpointRef
from tests.processes import open_files, until

PROJECT = Path(__file__).resolve().parents[2]
SIZE = (64, 48)

PUT_FOR_EVER = """
import asyncio, sys
from pathlib import Path
from activities.artifacts import LocalArtifactStore

async def main():
    store = LocalArtifactStore(Path(sys.argv[1]))
    data = bytes(range(256)) * 4096
    for number in range(10**9):
        await store.put(f"jobs/{number}/image.png", data)

asyncio.run(main())
"""

PUT_ON_A_FULL_DISK = """
import asyncio, resource, signal, sys
from pathlib import Path
from activities.artifacts import LocalArtifactStore
from activities.errors import WorkError

# The nearest that a process can come to a full disk by itself.
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    asyncio.run(LocalArtifactStore(Path(sys.argv[1])).put("jobs/7/image.png", b"x" * 10_000))
except WorkError as error:
    sys.stdout.write(f"{error.kind}: {error.message}")
"""


PUT_WITHOUT_PROC = """
import asyncio, concurrent.futures.thread, encodings.idna, os, sys
from pathlib import Path
from activities.artifacts import LocalArtifactStore

# Where /proc is not mounted, a file without a name can't be given one.
os.chroot(sys.argv[1])
store = LocalArtifactStore(Path("/artifacts"))
for _ in range(3):
    asyncio.run(store.put("jobs/7/image.png", b"pixels"))
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "artifacts")


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_an_image_is_stored_under_its_own_hash(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    sha256 = hashlib.sha256(b"pixels").hexdigest()
    ref = await put_image(store, "7", b"pixels", "image/jpeg", SIZE)
    assert ref.key == f"jobs/7/{sha256}.jpg"
    assert (ref.sha256, ref.byte_size, ref.media_type) == (sha256, 6, "image/jpeg")
    assert (ref.width, ref.height) == SIZE
    assert await get_image(store, ref) == b"pixels"
    assert files(tmp_path / "artifacts") == [ref.key]


async def test_a_checkpoint_has_a_key_of_its_dispatch_and_step(store: LocalArtifactStore) -> None:
    ref = await put_checkpoint(store, "7", 3, 12, b"state")
    assert ref == CheckpointRef(key="checkpoints/7/3-12", step=12)
    assert await store.get(ref.key) == b"state"


async def test_storing_again_changes_nothing(store: LocalArtifactStore, tmp_path: Path) -> None:
    first = await put_image(store, "7", b"pixels", "image/png", SIZE)
    inode = (tmp_path / "artifacts" / first.key).stat().st_ino
    assert await put_image(store, "7", b"pixels", "image/png", SIZE) == first
    assert (tmp_path / "artifacts" / first.key).stat().st_ino == inode


@pytest.mark.parametrize("damage", [b"", b"pix", b"pixelS", b"pixels and more"])
async def test_storing_again_repairs_a_damaged_file(
    store: LocalArtifactStore, tmp_path: Path, damage: bytes
) -> None:
    ref = await put_image(store, "7", b"pixels", "image/png", SIZE)
    (tmp_path / "artifacts" / ref.key).write_bytes(damage)
    with pytest.raises(ArtifactLostError, match="not the recorded ones"):
        await get_image(store, ref)
    await put_image(store, "7", b"pixels", "image/png", SIZE)
    assert await get_image(store, ref) == b"pixels"
    assert files(tmp_path / "artifacts") == [ref.key]


async def test_bytes_that_are_not_there_are_lost(store: LocalArtifactStore) -> None:
    with pytest.raises(ArtifactLostError):
        await store.get("jobs/7/nothing.png")


async def test_many_writers_of_one_key_leave_one_whole_file(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    before = open_files()
    data = os.urandom(200_000)
    refs = await asyncio.gather(
        *(put_image(store, "7", data, "image/png", SIZE) for _ in range(40))
    )
    assert len(set(refs)) == 1
    assert files(tmp_path / "artifacts") == [refs[0].key]
    assert await get_image(store, refs[0]) == data
    assert open_files() == before


async def test_a_process_that_is_killed_leaves_whole_files_and_no_others(tmp_path: Path) -> None:
    chance, expected = random.Random(3), bytes(range(256)) * 4096
    for round_ in range(5):
        root = tmp_path / str(round_)
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PUT_FOR_EVER, str(root)), cwd=PROJECT
        )
        await until(lambda: len(files(root)) > 3)  # noqa: B023
        await asyncio.sleep(chance.random() * 0.02)
        writer.send_signal(signal.SIGKILL)
        await writer.wait()
        for file in files(root):
            assert file.endswith("/image.png")
            assert (root / file).read_bytes() == expected


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/etc/passwd",
        "../x",
        "jobs/../../x",
        "jobs/..",
        ".hidden",
        "a b",
        "a\n",
        "a\0",
        "é",
    ],
)
async def test_a_key_that_leaves_the_store_or_hides_is_refused(
    store: LocalArtifactStore, key: str
) -> None:
    for call in (store.put(key, b""), store.get(key), store.list(key), store.delete(key)):
        with pytest.raises(ValueError, match="not a key"):
            await call


async def test_a_file_in_place_of_a_folder_is_told_without_a_path(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "artifacts").write_bytes(b"")
    calls = (store.put("jobs/x", b""), store.get("jobs/x"), store.list("jobs"), store.check())
    for call in calls:
        with pytest.raises(WorkError) as failure:
            await call
        assert failure.value.kind is ErrorKind.STORAGE
        assert failure.value.message.startswith("the artifact store could not be ")
        assert str(tmp_path) not in failure.value.message


async def test_a_folder_in_place_of_a_file_is_told_as_storage(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "artifacts/jobs/x").mkdir(parents=True)
    for call in (store.put("jobs/x", b"1"), store.get("jobs/x")):
        with pytest.raises(WorkError, match="Is a directory"):
            await call


async def test_a_full_disk_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PUT_ON_A_FULL_DISK, str(tmp_path)),
        cwd=PROJECT,
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await asyncio.wait_for(writer.communicate(), 20)
    assert told == b"STORAGE: the artifact store could not be written: File too large"
    assert files(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root folder")
async def test_a_system_without_nameless_files_still_writes_whole_ones(tmp_path: Path) -> None:
    writer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PUT_WITHOUT_PROC, str(tmp_path)), cwd=PROJECT
    )
    assert await asyncio.wait_for(writer.wait(), 20) == 0
    assert files(tmp_path) == ["artifacts/jobs/7/image.png"]
    assert (tmp_path / "artifacts/jobs/7/image.png").read_bytes() == b"pixels"


async def test_check_writes_and_leaves_nothing(store: LocalArtifactStore, tmp_path: Path) -> None:
    await store.check()
    assert files(tmp_path) == []


async def test_keys_below_a_prefix_are_listed_and_deleted(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    assert await store.list("jobs/7") == []
    for name in ("b.png", "a.png"):
        await store.put(f"jobs/7/{name}", b"1")
    assert await store.list("jobs/7") == ["jobs/7/a.png", "jobs/7/b.png"]
    for name in ("a.png", "b.png", "b.png"):
        await store.delete(f"jobs/7/{name}")
    assert await store.list("jobs/7") == []
    await store.put("jobs/7/a.png", b"2")
    assert files(tmp_path / "artifacts") == ["jobs/7/a.png"]


async def test_folders_that_come_and_go_meanwhile_do_no_harm(store: LocalArtifactStore) -> None:
    async def put_and_delete(number: int) -> None:
        for _ in range(50):
            await store.put(f"jobs/7/{number}", b"1")
            await store.delete(f"jobs/7/{number}")

    await asyncio.gather(*(put_and_delete(number) for number in range(4)))


@pytest.mark.parametrize("start", ["file://", "file://localhost", "FILE://"])
async def test_a_file_url_opens_a_folder(start: str, tmp_path: Path) -> None:
    await open_store(f"{start}{tmp_path}/a%20b").put("jobs/x", b"1")
    assert files(tmp_path) == ["a b/jobs/x"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/srv/x",
        "srv",
        "file:srv",
        "file:///a?b",
        "file:///a#b",
        "file://srv/x",
        "http://x/y",
        "file://",
        "file://x",
    ],
)
def test_another_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ValueError, match="file:///srv/darkroom"):
        open_store(url)
