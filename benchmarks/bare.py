"""The yardstick: a bare workflow of two trivial activities, and its worker process."""

import asyncio
import os
import signal
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

TASK_QUEUE = "bare"


@activity.defn
async def trivial(value: str) -> str:
    """Do nothing."""
    return value


@workflow.defn
class BareWorkflow:
    """Two activities, one after the other: the least that a job of two steps can cost."""

    @workflow.run
    async def run(self, value: str) -> str:
        """Run both."""
        for _ in range(2):
            value = await workflow.execute_activity(
                trivial, value, start_to_close_timeout=timedelta(seconds=10)
            )
        return value


async def main() -> None:
    """Serve until SIGTERM."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Worker(
        client, task_queue=TASK_QUEUE, workflows=[BareWorkflow], activities=[trivial]
    ):
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
