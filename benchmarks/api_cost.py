"""What the API adds to the calls of Temporal's that it makes, both sides in one run, interleaved.

`python -m benchmarks.api_cost [--requests 300] [--rounds 5] [--concurrency 1]`

GET of a job beside a bare `describe()`, POST beside a bare `start_workflow` with the same input,
memo and attributes, and GET /healthz as the floor: what HTTP, the client included, costs at all.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from uuid import uuid4

import httpx
from temporalio.client import Client

from activities.models import GenerationParameters
from benchmarks.keep_alive import Connection
from benchmarks.stack import percentile, process, scratch_folder, temporal_server, until_ready
from tests.end_to_end.stack import free_port
from workflows.messages import ImageJobInput
from workflows.names import workflow_id_for
from workflows.submission import start_job

ASKED = {"prompt": "a lighthouse at dusk", "width": 64, "height": 64, "num_inference_steps": 1}

_LIMITS = {"DARKROOM_TENANT_REQUESTS_PER_SECOND": "0", "DARKROOM_TENANT_MAX_WAITING": "0"}

Act = Callable[[Connection], Awaitable[object]]


class Sides:
    """What is measured, by name; `done` and `waiting` are jobs to be read."""

    def __init__(self, client: Client, done: str, waiting: str) -> None:
        self._client = client
        self.all: dict[str, Act] = {
            "healthz": lambda connection: connection.get("/healthz"),
            "describe done": lambda _: self._describe(done),
            "GET done": lambda connection: connection.get(f"/v1/jobs/{done}"),
            "describe waiting": lambda _: self._describe(waiting),
            "GET waiting": lambda connection: connection.get(f"/v1/jobs/{waiting}"),
            "start_workflow": lambda _: self._start(),
            "POST": lambda connection: connection.post("/v1/jobs", ASKED),
        }

    async def _describe(self, job_id: str) -> object:
        return await self._client.get_workflow_handle(workflow_id_for(job_id)).describe()

    async def _start(self) -> object:
        parameters = GenerationParameters(**ASKED, seed=1)
        return await start_job(self._client, uuid4().hex, ImageJobInput(parameters=parameters))


async def _milliseconds(act: Act, port: int, requests: int, concurrency: int) -> list[float]:
    """How long each took, as its caller sees it."""
    taken: list[float] = []
    left = iter(range(requests))

    async def repeat() -> None:
        async with Connection(port) as connection:
            for _ in left:
                began = time.perf_counter()
                await act(connection)
                taken.append(1000 * (time.perf_counter() - began))

    await asyncio.gather(*(repeat() for _ in range(concurrency)))
    return taken


def _ratio(medians: dict[str, list[float]], side: str, yardstick: str) -> str:
    """Round by round, so that both sides met the same machine."""
    ratios = [a / b for a, b in zip(medians[side], medians[yardstick], strict=True)]
    return (
        f"{side} / {yardstick}: {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


async def _measure(sides: Sides, port: int, args: argparse.Namespace) -> None:
    medians: dict[str, list[float]] = {name: [] for name in sides.all}
    for act in sides.all.values():
        await _milliseconds(act, port, 50, args.concurrency)
    for _ in range(args.rounds):
        for name, act in sides.all.items():
            taken = await _milliseconds(act, port, args.requests, args.concurrency)
            medians[name].append(statistics.median(taken))
            print(f"{name:17} p50 {medians[name][-1]:6.2f} ms  p95 {percentile(taken, 0.95):6.2f}")
    for side, yardstick in (
        ("GET done", "describe done"),
        ("GET waiting", "describe waiting"),
        ("POST", "start_workflow"),
    ):
        print(_ratio(medians, side, yardstick))


async def _done_job(port: int) -> str:
    async with Connection(port) as connection:
        job_id: str = json.loads(await connection.post("/v1/jobs", ASKED))["id"]
        while not json.loads(await connection.get(f"/v1/jobs/{job_id}"))["done"]:
            await asyncio.sleep(0.05)
    return job_id


async def main() -> None:
    """Measure in alternating rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=1)
    args = parser.parse_args()
    port = free_port()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        server = await stack.enter_async_context(temporal_server(folder))
        address = server.client.service_client.config.target_host
        settings = {**_LIMITS, "DARKROOM_API_PORT": str(port)}
        stack.enter_context(process("-m", "api", address=address, folder=folder, **settings))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
            await until_ready(http)
        # The worker is gone before anything is measured: the jobs that are started would keep both
        # processors busy.
        with process("worker.py", address=address, folder=folder):
            done = await _done_job(port)
        waiting = uuid4().hex
        parameters = GenerationParameters(prompt="a lake", seed=1)
        await start_job(server.client, waiting, ImageJobInput(parameters=parameters))
        await _measure(Sides(server.client, done, waiting), port, args)


if __name__ == "__main__":
    asyncio.run(main())
