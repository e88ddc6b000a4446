"""ArtifactStore: the only place for bytes. Writes are atomic, flushed, and idempotent by key."""

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from activities.errors import ErrorKind, WorkError
from activities.refs import (
    IMAGE_EXTENSIONS,
    ArtifactRef,
    CheckpointRef,
    image_folder,
    pristine_folder,
)
from activities.threads import DaemonThreads
from activities.whole_files import delete, probe, write_whole

Result = TypeVar("Result")

# More than a disk does at once; on a file system that hangs, so many calls hang and no more.
_CALLS_AT_A_TIME = 8
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


def open_store(url: str, limit_seconds: float = 60) -> "LocalArtifactStore":
    """The store that a `file://` URL names; none of its calls takes longer than the limit."""
    parts = urlsplit(url)
    is_folder = parts.path.startswith("/") and not parts.query and not parts.fragment
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not is_folder:
        raise ValueError(
            "must be a file:// URL with an absolute path, such as file:///srv/darkroom"
        )
    return LocalArtifactStore(Path(unquote(parts.path)), limit_seconds)


@asynccontextmanager
async def store_limit(seconds: float) -> AsyncIterator[None]:
    """Turn what takes too long into an error of kind STORAGE."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        message = f"the artifact store did not answer for {seconds:g} s"
        raise WorkError(ErrorKind.STORAGE, message) from error


async def is_usable(store: ArtifactStore, within_seconds: float = 2) -> bool:
    """Whether the store can be written to now."""
    try:
        async with store_limit(within_seconds):
            await store.check()
    except WorkError:
        return False
    return True


async def put_image(
    store: ArtifactStore, job_id: str, data: bytes, media_type: str, size: tuple[int, int]
) -> ArtifactRef:
    """Store a finished image under its own hash; `size` is width and height in pixels."""
    return await _put_hashed(store, image_folder(job_id), data, media_type, size)


async def put_pristine(
    store: ArtifactStore, job_id: str, data: bytes, media_type: str, size: tuple[int, int]
) -> ArtifactRef:
    """Keep what a label covers, for the job's own successor; nobody else is served it."""
    return await _put_hashed(store, pristine_folder(job_id), data, media_type, size)


async def _put_hashed(
    store: ArtifactStore, folder: str, data: bytes, media_type: str, size: tuple[int, int]
) -> ArtifactRef:
    sha256 = await _sha256(data)
    key = f"{folder}/{sha256}.{IMAGE_EXTENSIONS[media_type]}"
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
    """A folder. A file appears under its name whole and flushed, or not at all.

    A file system that hangs holds up nothing but the calls to this store.
    """

    def __init__(self, root: Path, limit_seconds: float = 60) -> None:
        self._root = root
        self._limit_seconds = limit_seconds
        self._threads = DaemonThreads(_CALLS_AT_A_TIME)
        # Asked for again and again while the store hangs, they would take all threads.
        self._checks = DaemonThreads(1)

    async def put(self, key: str, data: bytes) -> None:
        """See `ArtifactStore.put`."""
        path = self._path(key)
        await self._call("written", lambda: write_whole(self._root, path, data))

    async def get(self, key: str) -> bytes:
        """See `ArtifactStore.get`."""
        path = self._path(key)
        return await self._call("read", lambda: _read(path))

    async def list(self, prefix: str) -> list[str]:
        """See `ArtifactStore.list`."""
        folder = self._path(prefix)
        names = await self._call("read", lambda: _names_in(folder))
        return [f"{prefix}/{name}" for name in names if _KEY_PART.fullmatch(name)]

    async def delete(self, key: str) -> None:
        """See `ArtifactStore.delete`. A folder goes with its last file."""
        path = self._path(key)
        await self._call("changed", lambda: delete(path))

    async def check(self) -> None:
        """Write and remove one small file, and see that calls don't wait for hung ones."""
        await self._call("written", lambda: probe(self._root), self._checks)
        await self._call("read", lambda: None)

    async def _call(
        self, what: str, act: Callable[[], Result], threads: DaemonThreads | None = None
    ) -> Result:
        """Do it in a thread; also the wait for a free one counts against the limit."""
        try:
            async with store_limit(self._limit_seconds):
                return await (threads or self._threads).run(act)
        except OSError as error:
            raise _storage_error(what, error) from error

    def _path(self, key: str) -> Path:
        parts = PurePosixPath(key).parts
        if not parts or not all(_KEY_PART.fullmatch(part) for part in parts):
            raise ValueError(f"not a key of an artifact: {key!r}")
        return self._root.joinpath(*parts)


def _storage_error(what: str, error: OSError) -> WorkError:
    reason = os.strerror(error.errno) if error.errno else "unknown reason"
    return WorkError(ErrorKind.STORAGE, f"the artifact store could not be {what}: {reason}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ArtifactLostError("there are no bytes under this key") from error


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
