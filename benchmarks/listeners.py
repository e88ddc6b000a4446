"""What listeners on one job cost: the API's CPU and memory, and what Temporal is asked.

`python -m benchmarks.listeners [--counts 0,1,1000] [--seconds 15]`
"""

import argparse
import asyncio
import os
import re
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.stack import process, scratch_folder, temporal_server, until_ready
from tests.end_to_end.stack import free_port

# Large, so that it is at work for longer than it is watched.
REQUEST = {"prompt": "a lighthouse", "width": 2048, "height": 2048, "num_inference_steps": 150}

_REQUESTS = re.compile(
    r'^service_requests\{.*operation="(\w+)".*service_name="frontend".*\} (\d+)', re.MULTILINE
)
# What the API asks; the worker's calls are the same with listeners and without.
_ASKED = (
    "DescribeWorkflowExecution",
    "GetWorkflowExecutionHistory",
    "ListWorkers",
    "DescribeTaskQueue",
)
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Look:
    """The API process and Temporal's counters at one moment."""

    at: float
    cpu_seconds: float
    resident_mb: float
    asked: Counter[str]

    @classmethod
    async def now(cls, pid: int, metrics: str) -> "Look":
        """Look at both."""
        async with httpx.AsyncClient() as http:
            text = (await http.get(metrics)).text
        asked: Counter[str] = Counter()
        for operation, count in _REQUESTS.findall(text):
            asked[operation] += int(count)
        return cls(time.monotonic(), *_spent(pid), asked)

    def since(self, before: "Look") -> str:
        """What was spent in between."""
        seconds = self.at - before.at
        asked = "  ".join(
            f"{operation} {(self.asked[operation] - before.asked[operation]) / seconds:.2f}/s"
            for operation in _ASKED
        )
        cpu = (self.cpu_seconds - before.cpu_seconds) / seconds
        return f"CPU {cpu:.1%} of a core, memory {self.resident_mb:.0f} MB\n      {asked}"


def _spent(pid: int) -> tuple[float, float]:
    """Seconds of CPU, and resident megabytes, of a process."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    [resident] = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return sum(map(int, ticks)) / _TICKS_PER_SECOND, int(resident) / 1024


async def _listen(port: int, job_id: str, begun: asyncio.Semaphore) -> Counter[bytes]:
    """How many events of each kind came until the stream ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard: Counter[bytes] = Counter()
    try:
        writer.write(f"GET /v1/jobs/{job_id}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while (line := await reader.readline()) not in (b"0\r\n", b""):
            if line.startswith(b"retry: "):
                begun.release()
            if line.startswith(b"event: "):
                heard[line.removeprefix(b"event: ").strip()] += 1
    finally:
        writer.close()
    return heard


async def _measure(
    http: httpx.AsyncClient, pid: int, metrics: str, count: int, seconds: float
) -> str:
    """Watch one job at work, and then cancel it, which must end every stream."""
    job_id = (await http.post("/v1/jobs", json=REQUEST)).json()["id"]
    while (await http.get(f"/v1/jobs/{job_id}")).json()["progress"] is None:
        await asyncio.sleep(0.05)
    begun = asyncio.Semaphore(0)
    port = http.base_url.port or 80
    started = await Look.now(pid, metrics)
    listeners = [asyncio.create_task(_listen(port, job_id, begun)) for _ in range(count)]
    for _ in range(count):
        await begun.acquire()
    before = await Look.now(pid, metrics)
    await asyncio.sleep(seconds)
    after = await Look.now(pid, metrics)
    state = (await http.post(f"/v1/jobs/{job_id}/cancel")).json()["state"]
    heard = await asyncio.gather(*listeners)
    if state != "CANCELLED" or any(one[b"transition"] != 2 for one in heard):
        raise SystemExit(f"{state}: not every listener was told of both transitions: {heard}")
    progress = sum(one[b"progress"] for one in heard) / max(1, count)
    return (
        f"{count:5} listeners: connected in {before.at - started.at:.2f} s, with "
        f"{before.cpu_seconds - started.cpu_seconds:.2f} s of CPU; {progress:.1f} progress events "
        f"each\n      {after.since(before)}"
    )


async def main() -> None:
    """Measure one job after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", default="0,1,1000")
    parser.add_argument("--seconds", type=float, default=15)
    args = parser.parse_args()
    metrics_port, port = free_port(), free_port()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        server = await stack.enter_async_context(
            temporal_server(folder, "--metrics-port", str(metrics_port))
        )
        address = server.client.service_client.config.target_host
        stack.enter_context(process("worker.py", address=address, folder=folder))
        pid = stack.enter_context(
            process("-m", "api", address=address, folder=folder, DARKROOM_API_PORT=str(port))
        )
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60)
        )
        await until_ready(http)
        metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        for count in map(int, args.counts.split(",")):
            print(await _measure(http, pid, metrics, count, args.seconds))


if __name__ == "__main__":
    asyncio.run(main())
