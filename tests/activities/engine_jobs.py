"""Jobs in engines with real faults, for the tests of engine processes."""

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from activities.engines.base import EngineEvent, ImageDone, StepDone
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.models import GenerationParameters
from tests.processes import descendants_of, is_running, until, zombies_of

FAULTY = "tests.faulty_engine:FaultyEngine"
PATIENT = StallLimits(load=30, step=30, decode=30)


def parameters(steps: int = 3, prompt: str = "a lake", **options: Any) -> GenerationParameters:
    """A small job; the options are for the faulty engine."""
    return GenerationParameters(
        prompt=prompt, width=64, height=64, num_inference_steps=steps, engine_options=options
    )


@asynccontextmanager
async def serving(
    slots: int = 1, limits: StallLimits = PATIENT, spec: str = FAULTY, grace: float = 5
) -> AsyncIterator[ChildProcessEngine]:
    """A loaded engine. Nothing of it is left afterwards, no zombie either."""
    engine = ChildProcessEngine("faulty", spec, slots, limits, grace)
    others = set(descendants_of(os.getpid()))
    await engine.start()
    try:
        yield engine
    finally:
        pids = set(descendants_of(os.getpid())) - others
        await engine.stop()
    # The engine's own process is gone by now, and what it had started is about to be.
    await until(lambda: not [pid for pid in pids if is_running(pid)], seconds=2)
    assert not zombies_of(os.getpid())


async def run(
    engine: ChildProcessEngine,
    work: GenerationParameters,
    scratch: Path,
    checkpoint: bytes | None = None,
    job_id: str = "job-7",
) -> list[EngineEvent]:
    """All events of a job."""
    async with engine.open(job_id, work, checkpoint, scratch) as job:
        return [event async for event in job.events()]


async def stopped(
    engine: ChildProcessEngine,
    work: GenerationParameters,
    scratch: Path,
    *,
    after: int = 1,
    checkpoint: bool = True,
    grace: float = 30,
) -> list[EngineEvent]:
    """All events of a job that is asked to stop after a step; 0 is before the first."""
    events: list[EngineEvent] = []
    async with engine.open("job-7", work, None, scratch) as job:
        if after == 0:
            job.request_stop(checkpoint=checkpoint, grace_seconds=grace)
        async for event in job.events():
            events.append(event)
            if event == StepDone(after, work.num_inference_steps):
                job.request_stop(checkpoint=checkpoint, grace_seconds=grace)
    return events


def image_of(events: list[EngineEvent]) -> str:
    """The hash of the image in which the job has ended."""
    image = events[-1]
    assert isinstance(image, ImageDone), events
    return hashlib.sha256(image.data).hexdigest()


def steps_of(events: list[EngineEvent]) -> list[int]:
    """The steps that were told."""
    return [event.step for event in events if isinstance(event, StepDone)]
