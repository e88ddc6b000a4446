"""The yardsticks: bare workflows of two activities, and their worker process.

`BareWorkflow` does nothing, twice: the least that two steps can cost. In `BareImageWorkflow` the
second step draws the same picture as a job, in a pool of processes, and writes it to a file: what
one would write by hand, without states, claims, checkpoints or a flushed store.
"""

import asyncio
import os
import signal
import tempfile
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from activities.engines.base import ImageDone
    from activities.engines.procedural import ProceduralEngine
    from activities.models import GenerationParameters

TASK_QUEUE = "bare"
PARAMETERS = GenerationParameters(
    prompt="a lighthouse at dusk", width=64, height=64, num_inference_steps=8, seed=1
)


@activity.defn
async def trivial(value: str) -> str:
    """Do nothing."""
    return value


def draw(path: str) -> None:
    """Draw the job's picture into a file."""
    engine = ProceduralEngine()
    engine.load()
    for event in engine.run(PARAMETERS, None):
        if isinstance(event, ImageDone):
            Path(path).write_bytes(event.data)


class Drawing:
    """The second step of `BareImageWorkflow`."""

    def __init__(self, pool: ProcessPoolExecutor, folder: str) -> None:
        self._pool = pool
        self._folder = folder

    @activity.defn
    async def draw_image(self, name: str) -> str:
        """Draw in the pool."""
        path = f"{self._folder}/{activity.info().workflow_id}.png"
        await asyncio.get_running_loop().run_in_executor(self._pool, draw, path)
        return path


@workflow.defn
class BareWorkflow:
    """Two activities that do nothing."""

    @workflow.run
    async def run(self, value: str) -> str:
        """Run both."""
        for _ in range(2):
            value = await workflow.execute_activity(
                trivial, value, start_to_close_timeout=timedelta(seconds=10)
            )
        return value


@workflow.defn
class BareImageWorkflow:
    """One activity that does nothing, and one that draws."""

    @workflow.run
    async def run(self, value: str) -> str:
        """Run both."""
        value = await workflow.execute_activity(
            trivial, value, start_to_close_timeout=timedelta(seconds=10)
        )
        return await workflow.execute_activity_method(
            Drawing.draw_image, value, start_to_close_timeout=timedelta(seconds=60)
        )


async def main() -> None:
    """Serve until SIGTERM."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    slots = int(os.environ["DARKROOM_GENERATE_SLOTS"])
    with ProcessPoolExecutor(slots) as pool, tempfile.TemporaryDirectory() as folder:
        async with Worker(
            client,
            task_queue=TASK_QUEUE,
            workflows=[BareWorkflow, BareImageWorkflow],
            activities=[trivial, Drawing(pool, folder).draw_image],
        ):
            await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
