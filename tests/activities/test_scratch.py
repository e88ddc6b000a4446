"""Scratch folders: gone with their attempt, or with the next start after a crash."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from activities.scratch import Scratch
from tests.processes import open_files

PROJECT = Path(__file__).resolve().parents[2]

HOLD_A_FOLDER = """
import sys
from pathlib import Path
from activities.scratch import Scratch

scratch = Scratch(Path(sys.argv[1]))
with scratch.folder("7") as folder:
    (folder / "file").write_bytes(b"left")
    print(folder, flush=True)
    sys.stdin.read()
scratch.close()
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


def test_a_folder_is_empty_and_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "deep/tmp")
    with scratch.folder("7") as folder, scratch.folder("7") as other:
        assert folder != other
        assert list(folder.iterdir()) == []
        (folder / "below").mkdir()
        (folder / "below/file").write_bytes(b"1")
    assert not folder.exists()
    scratch.close()


def test_a_folder_goes_also_after_an_error_or_when_it_is_gone_already(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    with pytest.raises(LookupError), scratch.folder("7") as folder:
        raise LookupError
    with scratch.folder("7") as other:
        other.rmdir()
    assert not folder.exists()
    scratch.close()


def test_close_leaves_nothing_and_no_open_file(tmp_path: Path) -> None:
    before = open_files()
    scratch = Scratch(tmp_path)
    with scratch.folder("7") as folder:
        (folder / "file").write_bytes(b"1")
        scratch.close()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
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
