"""How soon a job goes on elsewhere when its machine dies, and how much is computed twice.

`python -m benchmarks.recovery [--kills 30] [--seed 1]`

Two workers; the one that has the job is killed with -9 together with its engines, a replacement
takes its place once the job goes on, and so on. Ends with 1 if a job is lost or differs in a byte.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from benchmarks.chaos_invariants import Violations, check_image, check_story
from benchmarks.recovery_engine import NOTES, SPEC, Note, read_notes
from benchmarks.stack import percentile, process, scratch_folder, temporal_server, until_ready
from tests.end_to_end.stack import free_port
from tests.processes import descendants_of

Json = dict[str, Any]

# Some 60 ms a step on the machine this was written on; a checkpoint comes every two seconds.
STEPS = 150
REQUEST = {"prompt": "a lighthouse at dusk", "num_inference_steps": STEPS, "max_attempts": 10}
# Each costs an attempt of the ten.
MOST_KILLS_OF_A_JOB = 6
# With fewer steps left the job may be through before the kill takes effect.
LEAST_STEPS_LEFT = 10
LONGEST_WAIT_SECONDS = 120.0


@dataclass
class Worker:
    """A worker process, and how it is seen off."""

    pid: int
    health: str
    end: ExitStack


@dataclass
class Kill:
    """One kill: `next_step` is the first step that was computed elsewhere."""

    at: float
    steps_done: int
    next_step: Note
    started_at: float = 0.0

    @property
    def steps_again(self) -> int:
        """Steps that had been computed, and were computed once more."""
        return self.steps_done - self.next_step.step + 1


@dataclass
class Bench:
    """The stack, and what was measured on it."""

    folder: Path
    address: str
    rng: random.Random
    api: httpx.AsyncClient
    workers: list[Worker] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    jobs: list[Json] = field(default_factory=list)

    def notes(self, seed: int) -> list[Note]:
        """The steps of the job with this seed so far."""
        return read_notes(self.folder / "notes", seed)

    def start_worker(self) -> None:
        """One more worker."""
        port, end = free_port(), ExitStack()
        settings = {
            "DARKROOM_ENGINES": f"procedural={SPEC}",
            "DARKROOM_HEALTH_PORT": str(port),
            NOTES: str(self.folder / "notes"),
        }
        pid = end.enter_context(
            process("worker.py", address=self.address, folder=self.folder, **settings)
        )
        self.workers.append(Worker(pid, f"http://127.0.0.1:{port}", end))

    def replace(self, pid: int) -> None:
        """A new worker for the killed one."""
        dead = next(worker for worker in self.workers if worker.pid == pid)
        self.workers.remove(dead)
        dead.end.close()
        self.start_worker()

    def stop_workers(self) -> None:
        """End them as a deploy does."""
        for worker in self.workers:
            worker.end.close()


async def until(what: str, condition: Callable[[], bool]) -> None:
    """Look every few milliseconds; the run is over if it does not come true."""
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {LONGEST_WAIT_SECONDS:g} s: {what}")
        await asyncio.sleep(0.005)


def kill_machine(pid: int) -> float:
    """Kill a worker and all that it started, at once; gives the time."""
    pids = [pid, *descendants_of(pid)]
    at = time.time()
    for each in pids:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return at


async def kill_owner(bench: Bench, seed: int) -> bool:
    """Kill the worker that computes the job and wait for its next step; whether that made sense."""
    notes = bench.notes(seed)
    if STEPS - notes[-1].step < LEAST_STEPS_LEFT:
        return False
    pid = notes[-1].worker
    at = kill_machine(pid)

    def elsewhere() -> list[Note]:
        return [note for note in bench.notes(seed) if note.at > at and note.worker != pid]

    await until("a step elsewhere", lambda: bool(elsewhere()))
    following = elsewhere()[0]
    done = max(note.step for note in bench.notes(seed) if note.at < following.at)
    bench.kills.append(Kill(at, done, following))
    bench.replace(pid)
    return True


async def run_job(bench: Bench, seed: int, kills: int) -> None:
    """One job, killed at random moments until it is nearly through."""
    answer = await bench.api.post("/v1/jobs", json=REQUEST | {"seed": seed})
    job_id, first = answer.json()["id"], len(bench.kills)
    for _ in range(min(kills, MOST_KILLS_OF_A_JOB)):
        await until("a first step", lambda: bool(bench.notes(seed)))
        await asyncio.gather(*(until_ready(bench.api, w.health) for w in bench.workers))
        await asyncio.sleep(bench.rng.uniform(0, 3))
        if not await kill_owner(bench, seed):
            break
    job = await finished(bench, job_id)
    bench.jobs.append(job)
    for kill in bench.kills[first:]:
        kill.started_at = start_after(job, kill.at)


async def finished(bench: Bench, job_id: str) -> Json:
    """The job at its end."""
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while time.monotonic() < deadline:
        job: Json = (await bench.api.get(f"/v1/jobs/{job_id}", params={"wait": 5})).json()
        if job["done"]:
            return job
    raise SystemExit(f"job {job_id} did not end: {job}")


def start_after(job: Json, at: float) -> float:
    """When the job was claimed the next time."""
    starts = (t["at"] for t in job["transitions"] if t["event"] == "START")
    return min(time for start in starts if (time := datetime.fromisoformat(start).timestamp()) > at)


@asynccontextmanager
async def bench_of(seed: int, folder: Path) -> AsyncIterator[Bench]:
    """A server, an API and two workers, all ready."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(temporal_server(folder))
        address = server.client.service_client.config.target_host
        port = str(free_port())
        stack.enter_context(
            process("-m", "api", address=address, folder=folder, DARKROOM_API_PORT=port)
        )
        base_url = f"http://127.0.0.1:{port}"
        api = await stack.enter_async_context(httpx.AsyncClient(base_url=base_url, timeout=60))
        bench = Bench(folder, address, random.Random(seed), api)
        stack.callback(bench.stop_workers)
        bench.start_worker()
        bench.start_worker()
        await until_ready(api, base_url)
        yield bench


def report(bench: Bench) -> None:
    """The figures."""
    for name, seconds in (
        ("kill → START elsewhere", [kill.started_at - kill.at for kill in bench.kills]),
        ("kill → next step computed", [kill.next_step.at - kill.at for kill in bench.kills]),
    ):
        print(
            f"{name}: p50 {percentile(seconds, 0.5):.3f} s  p99 {percentile(seconds, 0.99):.3f} s  "
            f"max {max(seconds):.3f} s over {len(seconds)}"
        )
    again = [float(kill.steps_again) for kill in bench.kills]
    print(
        f"steps computed twice: p50 {percentile(again, 0.5):.0f}  "
        f"p99 {percentile(again, 0.99):.0f}  max {max(again):.0f} of {STEPS}; "
        f"{sum(again) / (STEPS * len(bench.jobs)):.1%} of all steps of {len(bench.jobs)} jobs"
    )


async def main() -> int:
    """Kill, report, check; 1 if a job was lost or is not the same to the byte."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    violations = Violations()
    with scratch_folder() as folder:
        async with bench_of(args.seed, folder) as bench:
            seed = 0
            while (left := args.kills - len(bench.kills)) > 0:
                await run_job(bench, seed, left)
                seed += 1
            report(bench)
            for job in bench.jobs:
                check_story(violations, job, may_be_cancelled=False)
                violations.expect(job["state"] == "SUCCESS", f"job {job['id']}: {job['state']}")
                await check_image(violations, bench.api, job)
    print(violations.report())
    return 1 if violations.broken else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
