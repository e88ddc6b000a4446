"""Scratch folders: gone with their attempt, or with the next start after a crash."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from activities.errors import ErrorKind, WorkError
from activities.scratch import Scratch
from tests.processes import open_files, until

PROJECT = Path(__file__).resolve().parents[2]

HOLD_A_FOLDER = """
import asyncio
import sys
from pathlib import Path
from activities.scratch import Scratch

async def hold():
    scratch = Scratch(Path(sys.argv[1]))
    async with scratch.folder("7") as folder:
        (folder / "file").write_bytes(b"left")
        print(folder, flush=True)
        sys.stdin.read()
    scratch.close()

asyncio.run(hold())
"""


async def holder(root: Path) -> asyncio.subprocess.Process:
    """A process that holds a folder with a file in it until its input ends."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLD_A_FOLDER, str(root)),
        cwd=PROJECT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def folder_of(process: asyncio.subprocess.Process) -> Path:
    assert process.stdout is not None
    return Path((await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip())


async def end(process: asyncio.subprocess.Process) -> None:
    await process.communicate(b"")
    assert process.returncode == 0


async def test_a_folder_is_empty_and_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "deep/tmp")
    async with scratch.folder("7") as folder, scratch.folder("7") as other:
        assert folder != other
        assert list(folder.iterdir()) == []
        (folder / "below").mkdir()
        (folder / "below/file").write_bytes(b"1")
    assert not folder.exists()
    scratch.close()


async def test_a_folder_goes_also_after_an_error_or_when_it_is_gone_already(
    tmp_path: Path,
) -> None:
    scratch = Scratch(tmp_path)
    with pytest.raises(LookupError):
        async with scratch.folder("7") as folder:
            raise LookupError
    async with scratch.folder("7") as other:
        other.rmdir()
    assert not folder.exists()
    scratch.close()


async def test_others_have_their_turn_while_a_folder_is_made_and_goes(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    turns: list[str] = []
    loop = asyncio.get_running_loop()
    loop.call_soon(turns.append, "made")
    async with scratch.folder("7") as folder:
        assert turns == ["made"]
        loop.call_soon(turns.append, "written")
        await scratch.write(folder / "file", b"1")
        assert turns == ["made", "written"]
        assert (folder / "file").read_bytes() == b"1"
        loop.call_soon(turns.append, "gone")
    assert turns == ["made", "written", "gone"]
    scratch.close()


async def test_a_folder_goes_also_where_nobody_waits_for_it(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    folders: list[Path] = []

    async def attempt() -> None:
        async with scratch.folder("7") as folder:
            folders.append(folder)
            (folder / "file").write_bytes(b"1")
            task = asyncio.current_task()
            assert task is not None
            # Takes effect at the next wait, which is the one for the removal.
            task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(attempt())
    await until(lambda: not folders[0].exists())
    scratch.close()


async def test_a_disk_that_takes_nothing_is_told_as_such(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    async with scratch.folder("7") as folder:
        with pytest.raises(
            WorkError, match="temporary files could not be written: No such"
        ) as told:
            await scratch.write(folder / "missing/file", b"1")
        assert told.value.kind is ErrorKind.STORAGE
        scratch.close()
    with pytest.raises(WorkError, match="temporary files could not be written: No such") as told:
        async with scratch.folder("7"):
            pass
    assert told.value.kind is ErrorKind.STORAGE


async def test_close_leaves_nothing_and_no_open_file(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "first")
    # What the loop itself opens when it is first called from a thread.
    async with scratch.folder("7"):
        scratch.close()
    before = open_files()
    scratch = Scratch(tmp_path)
    async with scratch.folder("7") as folder:
        (folder / "file").write_bytes(b"1")
        scratch.close()
    assert set(os.listdir(tmp_path)) == {".lock", "first"}
    assert open_files() == before


async def test_a_start_sweeps_after_a_killed_owner_and_never_after_a_living_one(
    tmp_path: Path,
) -> None:
    dead, living = await holder(tmp_path), await holder(tmp_path)
    left, held = await folder_of(dead), await folder_of(living)
    dead.kill()
    await dead.communicate()
    assert (left / "file").exists()
    Scratch(tmp_path).close()
    assert not left.parent.exists()
    assert (held / "file").read_bytes() == b"left"
    await end(living)
    assert not held.parent.exists()


async def test_eight_starts_at_once_sweep_none_of_each_other(tmp_path: Path) -> None:
    processes = await asyncio.gather(*(holder(tmp_path) for _ in range(8)))
    folders = await asyncio.gather(*(folder_of(process) for process in processes))
    assert len(set(folders)) == 8
    assert all((folder / "file").exists() for folder in folders)
    await asyncio.gather(*(end(process) for process in processes))
    assert os.listdir(tmp_path) == [".lock"]
