"""How soon a cancel counts, and how soon the engine stops: 100 cancels over HTTP.

`python -m benchmarks.cancel_latency [--cancels 100]`
"""

import argparse
import asyncio
import random
import time
from pathlib import Path

import httpx

from benchmarks.stack import (
    percentile,
    process,
    scratch_folder,
    temporal_server,
    until_ready,
)
from tests.end_to_end.stack import free_port

# Some 60 ms a step on the machine this was written on, so the step is part of what is measured.
REQUEST = {"prompt": "a lighthouse at dusk", "num_inference_steps": 150, "seed": 1}


async def _until_running(client: httpx.AsyncClient, job_id: str) -> None:
    while True:
        job = (await client.get(f"/v1/jobs/{job_id}")).json()
        if job["progress"] and job["progress"]["step"] >= 1:
            return
        await asyncio.sleep(0.01)


async def _until_gone(folder: Path, job_id: str) -> None:
    """The attempt's folder goes when the engine has stopped and its slot is free."""
    while any((folder / "data" / "tmp").glob(f"*/{job_id}-*")):
        await asyncio.sleep(0.002)


async def _cancel(client: httpx.AsyncClient, folder: Path) -> tuple[float, float]:
    """Seconds until the answer CANCELLED, and until the engine had stopped."""
    job_id = (await client.post("/v1/jobs", json=REQUEST)).json()["id"]
    await _until_running(client, job_id)
    await asyncio.sleep(random.uniform(0, 0.3))
    started = time.perf_counter()
    answer = await client.post(f"/v1/jobs/{job_id}/cancel")
    answered = time.perf_counter() - started
    if answer.json()["state"] != "CANCELLED":
        raise SystemExit(f"not cancelled: {answer.text}")
    await _until_gone(folder, job_id)
    return answered, time.perf_counter() - started


async def main() -> None:
    """Measure one job at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cancels", type=int, default=100)
    args = parser.parse_args()
    port = str(free_port())
    with scratch_folder() as folder:
        async with temporal_server(folder) as server:
            address = server.client.service_client.config.target_host
            with (
                process("worker.py", address=address, folder=folder),
                process("-m", "api", address=address, folder=folder, DARKROOM_API_PORT=port),
            ):
                transport = httpx.AsyncHTTPTransport(retries=5)
                base_url = f"http://127.0.0.1:{port}"
                async with httpx.AsyncClient(
                    base_url=base_url, transport=transport, timeout=60
                ) as client:
                    await until_ready(client)
                    pairs = [await _cancel(client, folder) for _ in range(args.cancels)]
    for name, values in (
        ("answered CANCELLED", [answered for answered, _ in pairs]),
        ("engine stopped", [stopped for _, stopped in pairs]),
    ):
        print(
            f"{name}: p50 {percentile(values, 0.5):.3f} s  p99 {percentile(values, 0.99):.3f} s  "
            f"max {max(values):.3f} s over {len(values)}"
        )


if __name__ == "__main__":
    asyncio.run(main())
