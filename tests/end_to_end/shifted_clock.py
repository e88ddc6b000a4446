"""A clock that a test can set while processes run by it; time that only passes is left alone."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

_LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"


def faketime_library() -> Path | None:
    """The library to preload, if libfaketime is installed; importing it would change this run."""
    spec = importlib.util.find_spec("libfaketime")
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).parent / _LIBRARY
    return library if library.exists() else None


@dataclass(frozen=True)
class ShiftedClock:
    """What the processes with this environment take for the time of day."""

    library: Path
    file: Path

    @property
    def environ(self) -> Mapping[str, str]:
        """For the processes that are to run by it. A static program does not see it."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            # Read again each second. With each look at a clock, also at one that is left alone, it
            # made everything slow enough for false alarms.
            "FAKETIME_CACHE_DURATION": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def shift(self, by: timedelta) -> None:
        """Set it to the true time and so much more, which is noticed within a second or two."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{by.total_seconds():+.0f}\n", encoding="ascii")
        fresh.replace(self.file)

    def clean_up(self, pid: int) -> None:
        """Remove what the first process that ran by it leaves in shared memory if it is killed."""
        for left in Path("/dev/shm").glob(f"*faketime_*_{pid}"):
            left.unlink(missing_ok=True)
