"""What listeners on one job cost: the API's CPU and memory, and what Temporal is asked.

`python -m benchmarks.listeners [--counts 0,1,1000] [--seconds 15]`
"""

import argparse
import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import httpx

from benchmarks.looking import Look
from benchmarks.stack import process, scratch_folder, temporal_server, until_ready
from tests.end_to_end.stack import free_port

# Large, so that it is at work for longer than it is watched.
REQUEST = {"prompt": "a lighthouse", "width": 2048, "height": 2048, "num_inference_steps": 150}

# What the API asks; the worker's calls are the same with listeners and without.
_ASKED = (
    "DescribeWorkflowExecution",
    "GetWorkflowExecutionHistory",
    "ListWorkers",
    "DescribeTaskQueue",
)


def _told(before: Look, after: Look) -> str:
    """What was spent between two looks."""
    seconds = after.at - before.at
    asked = "  ".join(
        f"{operation} {(after.asked[operation] - before.asked[operation]) / seconds:.2f}/s"
        for operation in _ASKED
    )
    cpu = after.cpu_share_since(before)
    return f"CPU {cpu:.1%} of a core, memory {after.resident_mb:.0f} MB\n      {asked}"


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
        f"each\n      {_told(before, after)}"
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
