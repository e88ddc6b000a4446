"""Chaos: jobs run while their world is killed around them, and then every promise is checked.

`python -m benchmarks.chaos [--jobs 200] [--seed 1] [--in-flight 24]`

Starts a stack of its own (`make run`'s, and two more workers), submits jobs, and at random moments
kills workers, engines, the API and the Temporal server with -9, freezes workers and lets them go
on, and pauses, resumes, amends and cancels jobs, some of which tell a receiver that often refuses.
The seed decides what is done; when, the machine does.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.chaos_callbacks import check_callbacks, receiver
from benchmarks.chaos_invariants import Violations, check_jobs, check_leftovers, known_jobs
from benchmarks.stack import until_ready
from tests.activities.receivers import Receiver
from tests.end_to_end.stack import Stack, running

Json = dict[str, Any]

EXTRA_WORKERS = 2
# dev.py gives up on a part that dies five times in a minute: its own parts are killed more rarely.
PART_PAUSE_SECONDS = 16.0
FINISH_SECONDS = 300.0
# The share of jobs whose label is removed by a second job.
REMOVALS = 0.3
# The share of jobs that tell a receiver, half of them of every transition.
CALLBACKS = 0.5
SIZES = ((64, 64, 8), (128, 96, 12), (256, 256, 30), (512, 512, 60), (768, 768, 100))


@dataclass
class Plan:
    """What is asked of one job, decided before it starts."""

    request: Json
    wishes: tuple[str, ...]
    delay: float


@dataclass
class Chaos:
    """One run: its stack, what was submitted, and what was done to it."""

    stack: Stack
    rng: random.Random
    callback_url: str
    extra: list[subprocess.Popen[bytes]] = field(default_factory=list)
    jobs: dict[str, Plan] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    deeds: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    def plan(self) -> Plan:
        """A job of a random size, and what will be wished of it."""
        width, height, steps = self.rng.choice(SIZES)
        request = {
            "prompt": self.rng.choice(["a lighthouse", "夜晚的海边城市", "a forest in snow 🌲"]),
            "width": width,
            "height": height,
            "num_inference_steps": steps,
            "seed": self.rng.randrange(3),
            "max_attempts": 10,
        }
        if self.rng.random() < REMOVALS:
            request |= {"watermark": "remove", "label_terms_accepted": True}
        if self.rng.random() < CALLBACKS:
            events = self.rng.choice(["final", "all"])
            request |= {"callback_url": self.callback_url, "callback_events": events}
        wishes = self.rng.choices(
            [
                (),
                ("cancel",),
                ("pause", "resume"),
                ("pause", "cancel"),
                ("resume", "pause", "resume"),
                ("amend", "pause", "amend", "resume"),
            ],
            [60, 10, 12, 4, 4, 10],
        )[0]
        return Plan(request, wishes, self.rng.uniform(0, 3))


async def insist(call: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Ask again until the API answers: it may be dead, or have nothing to stand on."""
    while True:
        with suppress(httpx.TransportError):
            answer = await call()
            if answer.status_code != 503:
                return answer
        await asyncio.sleep(0.2)


async def run_job(chaos: Chaos, api: httpx.AsyncClient, gate: asyncio.Semaphore) -> None:
    """Submit one job, wish what is planned, and wait for its end."""
    async with gate:
        plan = chaos.plan()
        answer = await insist(lambda: api.post("/v1/jobs", json=plan.request))
        if answer.status_code != 202:
            raise SystemExit(f"refused: {answer.text}")
        job_id = answer.json()["id"]
        chaos.jobs[job_id] = plan
        await asyncio.sleep(plan.delay)
        for wish in plan.wishes:
            if wish == "cancel":
                chaos.cancelled.add(job_id)
            answer = await insist(partial(ask, api, job_id, wish, plan.request["seed"]))
            chaos.deeds[f"{wish} → {answer.status_code}"] += 1
            await asyncio.sleep(plan.delay / 3)
        job = await finish(api, job_id)
        if job["state"] == "SUCCESS" and "watermark" in plan.request:
            await finish(api, job["successor_id"])


async def ask(api: httpx.AsyncClient, job_id: str, wish: str, number: int) -> httpx.Response:
    """Wish something of a job."""
    if wish == "amend":
        return await api.patch(f"/v1/jobs/{job_id}", json={"priority": number})
    return await api.post(f"/v1/jobs/{job_id}/{wish}")


async def finish(api: httpx.AsyncClient, job_id: str) -> Json:
    """Wait for the end; a pause that came after its resume is resumed once more."""
    deadline = time.monotonic() + FINISH_SECONDS
    while time.monotonic() < deadline:
        answer = await insist(lambda: api.get(f"/v1/jobs/{job_id}", params={"wait": 5}))
        job: Json = answer.json()
        if job["done"]:
            return job
        if job["state"] == "PAUSED":
            await insist(lambda: api.post(f"/v1/jobs/{job_id}/resume"))
    raise SystemExit(f"job {job_id} did not end: {job}")


async def disturb(chaos: Chaos) -> None:
    """Kill and freeze until the jobs are through."""
    last_part = time.monotonic()
    while not chaos.is_over:
        await asyncio.sleep(chaos.rng.uniform(0.5, 3))
        if chaos.stack.process.poll() is not None:
            raise SystemExit(f"make run ended by itself: {chaos.stack.err}")
        chaos.extra = [w if w.poll() is None else chaos.stack.start_worker() for w in chaos.extra]
        if time.monotonic() - last_part > PART_PAUSE_SECONDS:
            last_part = time.monotonic()
            part = chaos.rng.choice(["-m api", "temporal server", "worker.py"])
            kill_one(chaos, part, chaos.stack.pids(part))
            continue
        deed = chaos.rng.choice([kill_worker, kill_engine, kill_engine, freeze_worker, stop_worker])
        await deed(chaos)


def kill_one(chaos: Chaos, name: str, pids: list[int]) -> None:
    """Kill one of these with -9."""
    if pids:
        with suppress(ProcessLookupError):
            os.kill(chaos.rng.choice(sorted(pids)), signal.SIGKILL)
            chaos.deeds[f"kill -9 {name}"] += 1


async def kill_worker(chaos: Chaos) -> None:
    """A worker dies of memory."""
    kill_one(chaos, "worker.py", [worker.pid for worker in chaos.extra])


async def kill_engine(chaos: Chaos) -> None:
    """An engine dies, its worker lives."""
    kill_one(chaos, "engine", chaos.stack.pids("activities.engines.child"))


async def stop_worker(chaos: Chaos) -> None:
    """A deploy."""
    chaos.rng.choice(chaos.extra).terminate()
    chaos.deeds["SIGTERM worker.py"] += 1


async def freeze_worker(chaos: Chaos) -> None:
    """A worker is gone for long enough that its jobs are given away, and comes back."""
    worker = chaos.rng.choice(chaos.extra)
    worker.send_signal(signal.SIGSTOP)
    chaos.deeds["SIGSTOP, SIGCONT worker.py"] += 1
    await asyncio.sleep(chaos.rng.uniform(1, 8))
    worker.send_signal(signal.SIGCONT)


async def run(jobs: int, seed: int, in_flight: int, folder: Path) -> Violations:
    """Run it all; what was found broken, which should be nothing."""
    async with receiver(random.Random(seed)) as told:
        return await run_with(jobs, seed, in_flight, folder, told)


async def run_with(
    jobs: int, seed: int, in_flight: int, folder: Path, told: Receiver
) -> Violations:
    """The same, with a receiver of callbacks."""
    settings = {
        "DARKROOM_ARCHIVE_INTERVAL_SECONDS": "3",
        "DARKROOM_ARCHIVE_SETTLE_SECONDS": "8",
        "DARKROOM_GRACE_SECONDS": "10",
        "DARKROOM_CALLBACK_PRIVATE_HOSTS": told.authority,
    }
    stack = Stack(folder / "data", extra=settings)
    with running(stack):
        await asyncio.to_thread(stack.wait_until_ready)
        chaos = Chaos(stack, random.Random(seed), told.url())
        chaos.extra = [stack.start_worker() for _ in range(EXTRA_WORKERS)]
        try:
            async with httpx.AsyncClient(base_url=stack.api_url, timeout=30) as api:
                await live(chaos, api, jobs, in_flight)
                known = await known_jobs(stack)
                violations = await check_jobs(api, known, chaos.jobs, chaos.cancelled)
                await check_callbacks(violations, api, sorted(known), told)
                await check_leftovers(stack, violations)
        finally:
            for worker in chaos.extra:
                worker.terminate()
                worker.wait(60)
        violations.expect(await asyncio.to_thread(stack.stop) == 0, "make run ends with 0")
        violations.expect(stack.pids() == [], "no process is left")
        for deed, count in sorted(chaos.deeds.items()):
            print(f"  {count:5} × {deed}")
        print(f"  {len(told.requests):5} callbacks taken or refused")
    return violations


async def live(chaos: Chaos, api: httpx.AsyncClient, jobs: int, in_flight: int) -> None:
    """All jobs, and all that is done to them."""
    gate = asyncio.Semaphore(in_flight)
    killer = asyncio.create_task(disturb(chaos))
    started = time.monotonic()
    await asyncio.gather(*(run_job(chaos, api, gate) for _ in range(jobs)))
    chaos.is_over = True
    await killer
    chaos.extra = [w if w.poll() is None else chaos.stack.start_worker() for w in chaos.extra]
    # What was killed last may not be back yet.
    await until_ready(api)
    print(f"{jobs} jobs in {time.monotonic() - started:.0f} s, seed and all:")


def main() -> int:
    """Run, report; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=24)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="darkroom-chaos-") as folder:
        violations = asyncio.run(run(args.jobs, args.seed, args.in_flight, Path(folder)))
    print(violations.report())
    return 1 if violations.broken else 0


if __name__ == "__main__":
    sys.exit(main())
