"""Jobs per second beside bare two-activity workflows (benchmarks/bare.py), in one run.

`python -m benchmarks.throughput [--jobs 300] [--rounds 3] [--slots 4] [--concurrency 50]`
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

from temporalio.client import Client

from benchmarks.bare import PARAMETERS, TASK_QUEUE, BareImageWorkflow, BareWorkflow
from benchmarks.stack import percentile, process, scratch_folder, temporal_server
from workflows.messages import ImageJobInput
from workflows.submission import start_job

JOB = ImageJobInput(parameters=PARAMETERS)


async def _bare(client: Client) -> int:
    handle = await client.start_workflow(
        BareWorkflow.run, "x", id=f"bare-{uuid4().hex}", task_queue=TASK_QUEUE
    )
    await handle.result()
    return (await handle.describe()).history_length


async def _bare_image(client: Client) -> int:
    handle = await client.start_workflow(
        BareImageWorkflow.run, "x", id=f"bare-image-{uuid4().hex}", task_queue=TASK_QUEUE
    )
    await handle.result()
    return (await handle.describe()).history_length


async def _job(client: Client) -> int:
    handle = await start_job(client, uuid4().hex, JOB)
    await handle.result()
    return (await handle.describe()).history_length


async def _rate(
    run: Callable[[Client], Awaitable[int]], client: Client, count: int, concurrency: int
) -> tuple[float, list[float], int]:
    """Runs per second, the seconds of each, and the largest history in events."""
    gate = asyncio.Semaphore(concurrency)
    seconds: list[float] = []

    async def one() -> int:
        async with gate:
            started = time.perf_counter()
            events = await run(client)
            seconds.append(time.perf_counter() - started)
            return events

    started = time.perf_counter()
    events = await asyncio.gather(*(one() for _ in range(count)))
    return count / (time.perf_counter() - started), seconds, max(events)


async def main() -> None:
    """Measure in alternating rounds, so that both meet the same machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=50)
    args = parser.parse_args()
    with scratch_folder() as folder:
        async with temporal_server(folder) as server:
            address = server.client.service_client.config.target_host
            slots = str(args.slots)
            with (
                process(
                    *("-m", "benchmarks.bare"),
                    address=address,
                    folder=folder,
                    DARKROOM_GENERATE_SLOTS=slots,
                ),
                process("worker.py", address=address, folder=folder, DARKROOM_GENERATE_SLOTS=slots),
            ):
                for run in (_bare, _bare_image, _job):
                    await _rate(run, server.client, 20, 10)
                for number in range(args.rounds):
                    await _round(number, server.client, args)


async def _round(number: int, client: Client, args: argparse.Namespace) -> None:
    rates: dict[str, float] = {}
    for name, run in (("bare", _bare), ("bare with image", _bare_image), ("jobs", _job)):
        rate, seconds, events = await _rate(run, client, args.jobs, args.concurrency)
        rates[name] = rate
        print(
            f"round {number}: {name:15} {rate:5.1f}/s  p50 {percentile(seconds, 0.5):.2f} s  "
            f"p99 {percentile(seconds, 0.99):.2f} s  {events} events"
        )
    for name in ("bare", "bare with image"):
        print(f"round {number}: jobs / {name} = {rates['jobs'] / rates[name]:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
