"""A bulk cancel of many waiting jobs, with the API killed right after its 202: is any missed?

`python -m benchmarks.bulk [--jobs 5000] [--delayed]`

The jobs wait in the queue for a worker that never comes, or, `--delayed`, for tomorrow.
"""

import argparse
import asyncio
import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client

from benchmarks.stack import process, scratch_folder, temporal_server, until_ready
from tests.end_to_end.stack import free_port
from workflows.bulk_reading import read_bulk
from workflows.names import IMAGE_JOB_WORKFLOW
from workflows.reading import JobReader

_BATCH = 500
_READS_AT_ONCE = 16


async def _create(api: httpx.AsyncClient, args: argparse.Namespace) -> list[str]:
    """The ids of the jobs that were accepted."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job: dict[str, Any] = {"prompt": "a lake"} | ({"start_at": tomorrow} if args.delayed else {})
    ids: list[str] = []
    while len(ids) < args.jobs:
        jobs = [job] * min(_BATCH, args.jobs - len(ids))
        answer = await api.post("/v1/batches", json={"jobs": jobs})
        ids += [result["job"]["id"] for result in answer.json()["results"]]
    return ids


async def _until_closed(client: Client, count: int) -> None:
    query = f'WorkflowType="{IMAGE_JOB_WORKFLOW}" AND ExecutionStatus!="Running"'
    while (await client.count_workflows(query)).count < count:
        await asyncio.sleep(0.25)


async def _states(client: Client, ids: list[str]) -> Counter[str]:
    """How many jobs are in which state, read one by one."""
    reader, gate = JobReader(client), asyncio.Semaphore(_READS_AT_ONCE)

    async def state(job_id: str) -> str:
        async with gate:
            return (await reader.read(job_id)).state

    return Counter(await asyncio.gather(*map(state, ids)))


async def _measure(client: Client, folder: Path, args: argparse.Namespace) -> None:
    address, port = client.service_client.config.target_host, str(free_port())
    with ExitStack() as stack:
        serve = ("worker.py", "--serve", "workflows")
        stack.enter_context(process(*serve, address=address, folder=folder))
        api_process = ("-m", "api")
        pid = stack.enter_context(
            process(*api_process, address=address, folder=folder, DARKROOM_API_PORT=port)
        )
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=300) as api:
            await until_ready(api)
            began = time.perf_counter()
            ids = await _create(api, args)
            print(f"{len(ids)} jobs accepted in {time.perf_counter() - began:.1f} s")
            began = time.perf_counter()
            answer = await api.post("/v1/bulk/cancel")
            os.kill(pid, signal.SIGKILL)
        print(f"{answer.status_code} after {time.perf_counter() - began:.3f} s; the API is killed")
        await _until_over(client, answer.json()["id"], ids, began)


async def _until_over(client: Client, bulk_id: str, ids: list[str], began: float) -> None:
    try:
        async with asyncio.timeout(120 + len(ids) / 5):
            await _until_closed(client, len(ids))
            took = time.perf_counter() - began
            print(f"all closed after {took:.1f} s: {len(ids) / took:.0f} jobs/s")
            while (await read_bulk(client, bulk_id)).state == "RUNNING":
                await asyncio.sleep(0.25)
    except TimeoutError:
        print("it took too long")
    view = await read_bulk(client, bulk_id)
    took = time.perf_counter() - began
    print(f"{view.state} after {took:.1f} s: {view.progress.model_dump(exclude={'failures'})}")
    states = await _states(client, ids)
    print(f"states: {dict(states)}; missed: {len(ids) - states['CANCELLED']}")


async def main() -> None:
    """Measure one bulk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--delayed", action="store_true")
    args = parser.parse_args()
    with scratch_folder() as folder:
        async with temporal_server(folder) as server:
            await _measure(server.client, folder, args)


if __name__ == "__main__":
    asyncio.run(main())
