"""Files that appear under their names whole and flushed, or not at all. All of it may block."""

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

# Not every file system, and no system but Linux, has files without a name.
_O_TMPFILE = getattr(os, "O_TMPFILE", os.O_CREAT | os.O_EXCL | os.O_DIRECTORY)
_NO_NAMELESS_FILES = (
    *(errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOTSUP, errno.ENOENT),
    # Where there are no links, and on some kernels in a folder that is just being removed.
    errno.EPERM,
)
_LOST_RACES = 20


def delete(path: Path) -> None:
    """Remove a file, and its folder with the last one; what is gone already is no error."""
    path.unlink(missing_ok=True)
    with suppress(OSError):  # not empty, or gone
        path.parent.rmdir()


def probe(root: Path) -> None:
    """Write and remove one small file."""
    root.mkdir(parents=True, exist_ok=True)
    file = root / f".probe-{secrets.token_hex(8)}"
    try:
        file.write_bytes(b"ok")
    finally:
        file.unlink(missing_ok=True)


def write_whole(root: Path, path: Path, data: bytes) -> None:
    """Write a file below `root`; what is there already under its name is kept if it is the same."""
    for _ in range(_LOST_RACES):
        # A folder is removed with its last file, which may happen just now.
        with suppress(FileNotFoundError):
            return _write_once(root, path, data)
    return _write_once(root, path, data)


def _write_once(root: Path, path: Path, data: bytes) -> None:
    _make_folder(root, path.parent)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        _write_nameless(folder, path, data)
        os.fsync(folder)
    except FileExistsError:
        if path.read_bytes() != data:
            _write_by_rename(path, data)
        # Whoever wrote the name may have been killed before it was flushed.
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NO_NAMELESS_FILES:
            raise
        _write_by_rename(path, data)
    finally:
        os.close(folder)


def _write_nameless(folder: int, path: Path, data: bytes) -> None:
    """Write a file that has no name until it is whole: it vanishes with a killed process."""
    fd = os.open(path.parent, _O_TMPFILE | os.O_WRONLY, 0o644)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
        # Only with a folder does Python call linkat, which follows the link to the open file.
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=folder, follow_symlinks=True)


def _write_by_rename(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    _flush_folder(path.parent)


def _make_folder(root: Path, folder: Path) -> None:
    """Make what is missing down from `root`; a new name counts once its parent is flushed."""
    if folder.is_dir():
        return
    if folder != root:
        _make_folder(root, folder.parent)
    # Made by another call, which may remove it again: whoever opens it finds out. Not `exist_ok`,
    # which looks a second time, and takes a folder that went away meanwhile for a file.
    with suppress(FileExistsError):
        folder.mkdir(parents=folder == root)
    _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
