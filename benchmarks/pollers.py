"""What many who poll their waiting jobs cost, beside as many who poll finished ones, in one run.

`python -m benchmarks.pollers [--jobs 1000] [--pollers 20] [--seconds 8] [--rounds 3]`

Each poller reads one waiting job after another: every job is read by somebody, and none twice in a
row. With all slots busy a waiting job's answer tells how many are ahead of it, which a finished
one's doesn't.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from uuid import uuid4

import httpx
from temporalio.client import Client

from activities.models import GenerationParameters
from benchmarks.keep_alive import Connection
from benchmarks.looking import Look, asked_so_far
from benchmarks.stack import process, scratch_folder, temporal_server, until_ready
from tests.end_to_end.gated_jobs import GATED_ENGINE
from tests.end_to_end.stack import free_port
from workflows.messages import ImageJobInput
from workflows.submission import start_job

_SHORT = {"prompt": "a lake", "width": 64, "height": 64, "num_inference_steps": 1}
# It waits for a file that never comes, and uses no processor meanwhile.
_HELD = {**_SHORT, "priority": 9, "engine_options": {"gate": "/nowhere/gate", "gate_after": 1}}
_SETTINGS = {
    "DARKROOM_ENGINES": GATED_ENGINE,
    "DARKROOM_GENERATE_SLOTS": "1",
    "DARKROOM_STALL_STEP_SECONDS": "3600",
    "DARKROOM_TENANT_REQUESTS_PER_SECOND": "0",
    "DARKROOM_TENANT_MAX_WAITING": "0",
}
_STARTS_AT_ONCE = 50
_CALLS = (
    "DescribeWorkflowExecution",
    "ListWorkers",
    "DescribeTaskQueue",
    "ListWorkflowExecutions",
    "GetWorkflowExecutionHistory",
)


@dataclass(frozen=True)
class Cost:
    """What one GET cost, on average."""

    gets_per_second: float
    cpu_ms: float
    calls: Counter[str]
    gets: int

    def told(self, name: str) -> str:
        """In a line."""
        calls = "  ".join(f"{call} {self.calls[call] / self.gets:.4f}" for call in _CALLS)
        return (
            f"{name:9} {self.gets_per_second:6.0f} GET/s, {self.cpu_ms:.2f} ms of the API's CPU "
            f"each; calls for each: {calls}"
        )


class Stand:
    """The stack that is measured."""

    def __init__(self, client: Client, port: int, pid: int, metrics: str) -> None:
        self._client = client
        self.port = port
        self._pid = pid
        self._metrics = metrics

    async def start_waiting(self, count: int) -> list[str]:
        """Jobs that stay in the queue."""
        gate = asyncio.Semaphore(_STARTS_AT_ONCE)

        async def start() -> str:
            async with gate:
                job_id = uuid4().hex
                parameters = GenerationParameters(prompt="a lake", seed=1)
                request = ImageJobInput(parameters=parameters, engine="gated")
                await start_job(self._client, job_id, request)
                return job_id

        return list(await asyncio.gather(*(start() for _ in range(count))))

    async def cost(self, job_ids: Sequence[str], pollers: int, seconds: float) -> Cost:
        """What reading these jobs costs, by so many at a time."""
        turns, gets = itertools.cycle(job_ids), 0
        before = await self._look()
        end = time.monotonic() + seconds

        async def poll() -> int:
            return await _poll(self.port, turns, end)

        gets = sum(await asyncio.gather(*(poll() for _ in range(pollers))))
        took = seconds + time.monotonic() - end
        after = await self._look()
        cpu = (after.cpu_seconds - before.cpu_seconds) / gets
        return Cost(gets / took, 1000 * cpu, after.asked - before.asked, gets)

    async def _look(self) -> Look:
        """Once the server has counted all: it tells its counters every second or so."""
        known, seen = await asked_so_far(self._metrics), 0
        while seen < 3:
            await asyncio.sleep(0.5)
            now = await asked_so_far(self._metrics)
            seen = seen + 1 if {c: now[c] for c in _CALLS} == {c: known[c] for c in _CALLS} else 0
            known = now
        return await Look.now(self._pid, self._metrics)


async def _poll(port: int, turns: Iterator[str], end: float) -> int:
    gets = 0
    async with Connection(port) as connection:
        while time.monotonic() < end:
            await connection.get(f"/v1/jobs/{next(turns)}")
            gets += 1
    return gets


async def _prepare(stand: Stand, jobs: int) -> tuple[list[str], list[str]]:
    """The waiting jobs, behind one that is at work; and as many answers of finished ones."""
    async with Connection(stand.port) as connection:
        done = [json.loads(await connection.post("/v1/jobs", _SHORT))["id"] for _ in range(20)]
        for job_id in done:
            while not json.loads(await connection.get(f"/v1/jobs/{job_id}"))["done"]:
                await asyncio.sleep(0.05)
        busy = json.loads(await connection.post("/v1/jobs", _HELD))["id"]
        while json.loads(await connection.get(f"/v1/jobs/{busy}"))["state"] != "PROCESSING":
            await asyncio.sleep(0.05)
    waiting = await stand.start_waiting(jobs)
    # One that was idle is closed.
    async with Connection(stand.port) as connection:
        while await _queued(connection) < jobs:
            await asyncio.sleep(0.2)
        for job_id in (waiting[0], waiting[jobs // 2], waiting[-1]):
            told = json.loads(await connection.get(f"/v1/jobs/{job_id}"))
            print(f"job {waiting.index(job_id)} of {jobs}: {told['waiting_for']}")
    return waiting, done


async def _queued(connection: Connection) -> int:
    [engine] = json.loads(await connection.get("/v1/engines"))["engines"]
    return int(engine["backlog"]["waiting"])


async def _measure(stand: Stand, args: argparse.Namespace) -> None:
    waiting, done = await _prepare(stand, args.jobs)
    cpu: list[float] = []
    for _ in range(args.rounds):
        of_done = await stand.cost(done, args.pollers, args.seconds)
        of_waiting = await stand.cost(waiting, args.pollers, args.seconds)
        print(of_done.told("finished"))
        print(of_waiting.told("waiting"))
        cpu.append(of_waiting.cpu_ms / of_done.cpu_ms)
    print(
        f"CPU of the API, waiting / finished: {statistics.median(cpu):.2f} "
        f"({min(cpu):.2f} to {max(cpu):.2f})"
    )


async def main() -> None:
    """Measure in alternating rounds, so that both meet the same machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--pollers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    metrics_port, port = free_port(), free_port()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        server = await stack.enter_async_context(
            temporal_server(folder, "--metrics-port", str(metrics_port))
        )
        address = server.client.service_client.config.target_host
        stack.enter_context(process("worker.py", address=address, folder=folder, **_SETTINGS))
        settings = {**_SETTINGS, "DARKROOM_API_PORT": str(port)}
        pid = stack.enter_context(process("-m", "api", address=address, folder=folder, **settings))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await until_ready(http)
        metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        await _measure(Stand(server.client, port, pid, metrics), args)


if __name__ == "__main__":
    asyncio.run(main())
