"""What a process of ours spends, and what Temporal is asked, between two looks."""

import os
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx

_REQUESTS = re.compile(
    r'^service_requests\{.*operation="(\w+)".*service_name="frontend".*\} (\d+)', re.MULTILINE
)
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Look:
    """A process and Temporal's counters at one moment."""

    at: float
    cpu_seconds: float
    resident_mb: float
    asked: Counter[str]

    @classmethod
    async def now(cls, pid: int, metrics: str) -> "Look":
        """Look at both; `metrics` is where the server tells its counters."""
        asked = await asked_so_far(metrics)
        return cls(time.monotonic(), *_spent(pid), asked)

    def cpu_share_since(self, before: "Look") -> float:
        """How much of a core was used."""
        return (self.cpu_seconds - before.cpu_seconds) / (self.at - before.at)


async def asked_so_far(metrics: str) -> Counter[str]:
    """How often each call was made to the server, by anybody."""
    async with httpx.AsyncClient() as http:
        text = (await http.get(metrics)).text
    asked: Counter[str] = Counter()
    for operation, count in _REQUESTS.findall(text):
        asked[operation] += int(count)
    return asked


def _spent(pid: int) -> tuple[float, float]:
    """Seconds of CPU, and resident megabytes, of a process."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    [resident] = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return sum(map(int, ticks)) / _TICKS_PER_SECOND, int(resident) / 1024
