"""Jobs per second beside bare two-activity workflows, on one server, in one run.

`python -m benchmarks.throughput [--jobs 300] [--rounds 3] [--slots 8] [--concurrency 50]`
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

from temporalio.client import Client

from activities.models import GenerationParameters
from benchmarks.bare import TASK_QUEUE, BareWorkflow
from benchmarks.stack import percentile, process, scratch_folder, temporal_server
from workflows.messages import ImageJobInput
from workflows.submission import start_job

JOB = ImageJobInput(
    parameters=GenerationParameters(
        prompt="a lighthouse at dusk", width=64, height=64, num_inference_steps=8, seed=1
    )
)


async def _bare(client: Client) -> int:
    handle = await client.start_workflow(
        BareWorkflow.run, "x", id=f"bare-{uuid4().hex}", task_queue=TASK_QUEUE
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
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=50)
    args = parser.parse_args()
    with scratch_folder() as folder:
        async with temporal_server(folder) as server:
            address = server.client.service_client.config.target_host
            slots = str(args.slots)
            with (
                process("-m", "benchmarks.bare", address=address, folder=folder),
                process("worker.py", address=address, folder=folder, DARKROOM_GENERATE_SLOTS=slots),
            ):
                await _rate(_bare, server.client, 20, 10)
                await _rate(_job, server.client, 20, 10)
                for number in range(args.rounds):
                    await _round(number, server.client, args)


async def _round(number: int, client: Client, args: argparse.Namespace) -> None:
    bare, bare_seconds, bare_events = await _rate(_bare, client, args.jobs, args.concurrency)
    jobs, job_seconds, job_events = await _rate(_job, client, args.jobs, args.concurrency)
    for name, rate, seconds, events in (
        ("bare", bare, bare_seconds, bare_events),
        ("jobs", jobs, job_seconds, job_events),
    ):
        print(
            f"round {number}: {name} {rate:5.1f}/s  p50 {percentile(seconds, 0.5):.2f} s  "
            f"p99 {percentile(seconds, 0.99):.2f} s  {events} events"
        )
    print(f"round {number}: jobs / bare = {jobs / bare:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
