"""ArtifactStore: the only place for bytes. Writes are atomic, flushed, and idempotent by key."""

import asyncio
import errno
import hashlib
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import unquote, urlsplit

from activities.errors import ErrorKind, WorkError
from activities.models import ArtifactRef, CheckpointRef

_EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
# Not every file system, and no system but Linux, has files without a name.
_O_TMPFILE = getattr(os, "O_TMPFILE", os.O_CREAT | os.O_EXCL | os.O_DIRECTORY)
_NO_NAMELESS_FILES = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOTSUP, errno.ENOENT)
_LOST_RACES = 20
_KEY_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ArtifactLostError(Exception):
    """No bytes under this key, or not the recorded ones."""


class ArtifactStore(Protocol):
    """Bytes by key. A failed write or read raises `WorkError` of kind STORAGE."""

    async def put(self, key: str, data: bytes) -> None:
        """Store; once this returns the bytes survive a power cut. A retry writes the same key."""

    async def get(self, key: str) -> bytes:
        """Read, or raise `ArtifactLostError`."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """The keys directly below `prefix`, sorted."""
        ...

    async def delete(self, key: str) -> None:
        """Remove; what is gone already is no error."""

    async def check(self) -> None:
        """Raise unless the store can be written to now."""


def open_store(url: str) -> "LocalArtifactStore":
    """The store that a `file://` URL names."""
    parts = urlsplit(url)
    is_folder = parts.path.startswith("/") and not parts.query and not parts.fragment
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not is_folder:
        raise ValueError(
            "must be a file:// URL with an absolute path, such as file:///srv/darkroom"
        )
    return LocalArtifactStore(Path(unquote(parts.path)))


async def put_image(
    store: ArtifactStore, job_id: str, data: bytes, media_type: str, size: tuple[int, int]
) -> ArtifactRef:
    """Store a finished image under its own hash; `size` is width and height in pixels."""
    sha256 = await _sha256(data)
    key = f"jobs/{job_id}/{sha256}.{_EXTENSIONS[media_type]}"
    await store.put(key, data)
    return ArtifactRef(
        key=key,
        sha256=sha256,
        media_type=media_type,
        byte_size=len(data),
        width=size[0],
        height=size[1],
    )


async def get_image(store: ArtifactStore, artifact: ArtifactRef) -> bytes:
    """The recorded bytes and no others, or `ArtifactLostError`."""
    data = await store.get(artifact.key)
    if await _sha256(data) != artifact.sha256:
        raise ArtifactLostError("the stored bytes are not the recorded ones")
    return data


async def _sha256(data: bytes) -> str:
    """In a thread: some tens of megabytes would hold up every heartbeat."""
    return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())


async def put_checkpoint(
    store: ArtifactStore, job_id: str, dispatch: int, step: int, data: bytes
) -> CheckpointRef:
    """Store a checkpoint. The key is this dispatch's own: no other attempt's is overwritten."""
    key = f"checkpoints/{job_id}/{dispatch}-{step}"
    await store.put(key, data)
    return CheckpointRef(key=key, step=step)


class LocalArtifactStore:
    """A folder. A file appears under its name whole and flushed, or not at all."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, key: str, data: bytes) -> None:
        """See `ArtifactStore.put`."""
        path = self._path(key)
        try:
            await asyncio.to_thread(_write, self._root, path, data)
        except OSError as error:
            raise _storage_error("written", error) from error

    async def get(self, key: str) -> bytes:
        """See `ArtifactStore.get`."""
        path = self._path(key)
        try:
            return await asyncio.to_thread(path.read_bytes)
        except FileNotFoundError as error:
            raise ArtifactLostError("there are no bytes under this key") from error
        except OSError as error:
            raise _storage_error("read", error) from error

    async def list(self, prefix: str) -> list[str]:
        """See `ArtifactStore.list`."""
        folder = self._path(prefix)
        try:
            names = await asyncio.to_thread(
                lambda: sorted(entry.name for entry in folder.iterdir())
            )
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _storage_error("read", error) from error
        return [f"{prefix}/{name}" for name in names if _KEY_PART.fullmatch(name)]

    async def delete(self, key: str) -> None:
        """See `ArtifactStore.delete`. A folder goes with its last file."""
        path = self._path(key)
        try:
            await asyncio.to_thread(_delete, path)
        except OSError as error:
            raise _storage_error("changed", error) from error

    async def check(self) -> None:
        """Write and remove one small file."""
        try:
            await asyncio.to_thread(_probe, self._root)
        except OSError as error:
            raise _storage_error("written", error) from error

    def _path(self, key: str) -> Path:
        parts = PurePosixPath(key).parts
        if not parts or not all(_KEY_PART.fullmatch(part) for part in parts):
            raise ValueError(f"not a key of an artifact: {key!r}")
        return self._root.joinpath(*parts)


def _storage_error(what: str, error: OSError) -> WorkError:
    reason = os.strerror(error.errno) if error.errno else "unknown reason"
    return WorkError(ErrorKind.STORAGE, f"the artifact store could not be {what}: {reason}")


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    with suppress(OSError):  # not empty, or gone
        path.parent.rmdir()


def _probe(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    probe = root / f".probe-{secrets.token_hex(8)}"
    try:
        probe.write_bytes(b"ok")
    finally:
        probe.unlink(missing_ok=True)


def _write(root: Path, path: Path, data: bytes) -> None:
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
    folder.mkdir(parents=folder == root, exist_ok=True)
    _flush_folder(folder.parent)


def _flush_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
