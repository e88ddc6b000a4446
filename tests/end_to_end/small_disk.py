"""A disk that a test can fill: a file system of 1 MB that only the processes on it can see."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DISK_BYTES = 1 << 20

# Namespaces of their own, so that the mount is nobody else's and goes with its last process; the
# second way needs no rights, but a kernel that lets users have namespaces.
_WAYS = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))
_MOUNT_AND_RUN = f'mount -t tmpfs -o size={DISK_BYTES} tmpfs "$0" && exec "$@"'


def way_to_mount(folder: Path) -> Sequence[str] | None:
    """The beginning of a command that runs the rest with a small disk at `folder`, if any can."""
    for way in _WAYS:
        command = (*way, "sh", "-c", _MOUNT_AND_RUN, str(folder))
        try:
            tried = subprocess.run((*command, "true"), capture_output=True, check=False, timeout=20)
        except FileNotFoundError:
            return None
        if tried.returncode == 0:
            return command
    return None


@dataclass(frozen=True)
class SmallDisk:
    """The disk at `folder`, seen through a process that runs on it."""

    folder: Path
    pid: int

    @property
    def _root(self) -> Path:
        return Path(f"/proc/{self.pid}/root{self.folder}")

    @property
    def _ballast(self) -> Path:
        return self._root / "ballast"

    @property
    def free_bytes(self) -> int:
        """What is left, also of files that have no name."""
        facts = os.statvfs(self._root)
        return facts.f_bavail * facts.f_frsize

    def files(self) -> list[str]:
        """All files, without what fills it up."""
        found = [path for path in self._root.rglob("*") if path.is_file()]
        return sorted(str(p.relative_to(self._root)) for p in found if p != self._ballast)

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes, a whole number of pages, and not one more."""
        with self._ballast.open("wb", buffering=0) as ballast:
            os.posix_fallocate(ballast.fileno(), 0, self.free_bytes - leave)

    def free(self) -> None:
        """Give back what was taken to fill it."""
        self._ballast.unlink()
