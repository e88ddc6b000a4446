"""Composition root of the worker process: settings → store, engines → workers.

The only file that names engines.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities.artifacts import open_store
from activities.attempt import StopGraces
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.generation import GenerationActivities
from activities.health import serve_health
from activities.ownership import TemporalOwnership
from activities.scratch import Scratch
from activities.settings import SettingsError, WorkerSettings
from activities.watchdog import WatchdogActivities
from workflows.client import WORKER_HEARTBEAT_INTERVAL, connect
from workflows.image_job import ImageJobWorkflow
from workflows.messages import WORKFLOW_TASK_QUEUE, generate_task_queue
from workflows.options import STICKY_QUEUE_TIMEOUT
from workflows.search_attributes import register_search_attributes

BUILT_IN_ENGINES = {"procedural": "activities.engines.procedural:ProceduralEngine"}
PARTS = ("workflows", "generate", "postprocess")

# The default would let progress be seen, and a cancel heard, only every few seconds.
_HEARTBEAT_THROTTLE = timedelta(milliseconds=200)
_RECONNECT_SECONDS = 1.0

logger = logging.getLogger("darkroom.worker")


@dataclass
class Process:
    """What runs in this worker process, in the order in which it has to stop."""

    client: Client
    generate: list[Worker] = field(default_factory=list)
    generation: list[GenerationActivities] = field(default_factory=list)
    workflows: list[Worker] = field(default_factory=list)

    @property
    def workers(self) -> list[Worker]:
        """All Temporal workers."""
        return [*self.generate, *self.workflows]

    async def is_ready(self) -> bool:
        """Whether every part is polling, and Temporal answers."""
        try:
            answers = await self.client.service_client.check_health(timeout=timedelta(seconds=2))
        except RPCError:
            return False
        return answers and all(worker.is_running for worker in self.workers)

    async def shut_down(self) -> None:
        """Hand jobs back, see them taken, and only then stop deciding."""
        await asyncio.gather(*(worker.shutdown() for worker in self.generate))
        if self.workflows:
            handed_back = [run for part in self.generation for run in part.handed_back]
            await asyncio.gather(*(_wait_until_taken(self.client, run) for run in handed_back))
        await asyncio.gather(*(worker.shutdown() for worker in self.workflows))


async def _wait_until_taken(client: Client, workflow_id: str) -> None:
    """Wait, not for long, until the workflow has recorded what its attempt returned."""
    handle = client.get_workflow_handle(workflow_id)
    with contextlib.suppress(TimeoutError, RPCError):
        async with asyncio.timeout(3):
            while (await handle.describe()).raw_description.HasField("pending_workflow_task"):
                await asyncio.sleep(0.02)


def _workflow_worker(client: Client) -> Worker:
    return Worker(
        client,
        task_queue=WORKFLOW_TASK_QUEUE,
        workflows=[ImageJobWorkflow],
        activities=[WatchdogActivities(client).read_idle_seconds],
        sticky_queue_schedule_to_start_timeout=STICKY_QUEUE_TIMEOUT,
    )


def _generate_worker(
    client: Client, settings: WorkerSettings, activities: GenerationActivities, engine: str
) -> Worker:
    return Worker(
        client,
        task_queue=generate_task_queue(engine),
        activities=[activities.generate_image],
        max_concurrent_activities=settings.generate_slots,
        # One open poll: what the server hands to a frozen worker waits for its heartbeat timeout.
        max_concurrent_activity_task_polls=1,
        max_heartbeat_throttle_interval=_HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=_HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=timedelta(seconds=settings.grace_seconds),
        disable_eager_activity_execution=True,
    )


def _engine(name: str, spec: str, settings: WorkerSettings) -> ChildProcessEngine:
    limits = StallLimits(
        load=settings.stall_load_seconds,
        step=settings.stall_step_seconds,
        decode=settings.stall_decode_seconds,
    )
    return ChildProcessEngine(
        name,
        spec or BUILT_IN_ENGINES[name],
        settings.generate_slots,
        limits,
        settings.cancel_grace_seconds,
    )


def _graces(settings: WorkerSettings) -> StopGraces:
    return StopGraces(
        cancel=timedelta(seconds=settings.cancel_grace_seconds),
        pause=timedelta(seconds=settings.pause_grace_seconds),
        # What is left of the grace is for storing the checkpoint and telling the workflow.
        worker_stopping=timedelta(seconds=settings.grace_seconds * 0.75),
    )


async def _add_generation(
    process: Process, settings: WorkerSettings, stack: AsyncExitStack
) -> None:
    store = open_store(settings.artifacts_url)
    scratch = Scratch(settings.data_dir.absolute() / "tmp")
    stack.callback(scratch.close)
    for name, spec in settings.engine_classes.items():
        engine = _engine(name, spec, settings)
        stack.push_async_callback(engine.stop)
        await engine.start()
        activities = GenerationActivities(
            engine,
            store,
            scratch,
            TemporalOwnership(process.client),
            process.client.identity,
            _graces(settings),
            settings.stall_store_seconds,
        )
        process.generation.append(activities)
        process.generate.append(_generate_worker(process.client, settings, activities, name))


async def _run(settings: WorkerSettings, parts: Sequence[str], stop: asyncio.Event) -> None:
    runtime = Runtime(
        telemetry=TelemetryConfig(), worker_heartbeat_interval=WORKER_HEARTBEAT_INTERVAL
    )
    client = await _keep_trying(lambda: connect(runtime=runtime), stop)
    if client is None:
        return
    await _keep_trying(lambda: register_search_attributes(client), stop)
    process = Process(client)
    async with AsyncExitStack() as stack:
        if "workflows" in parts:
            process.workflows.append(_workflow_worker(client))
        if "generate" in parts:
            await _add_generation(process, settings, stack)
        port = await stack.enter_async_context(
            serve_health(settings.health_host, settings.health_port, process.is_ready)
        )
        logger.info("serving %s as %s; health on port %d", ",".join(parts), client.identity, port)
        await _serve(process, stop)


async def _serve(process: Process, stop: asyncio.Event) -> None:
    """Run until asked to stop, or until a part fails."""
    running = [asyncio.create_task(worker.run()) for worker in process.workers]
    asked = asyncio.create_task(stop.wait())
    await asyncio.wait([asked, *running], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if all(not task.done() for task in running):
        logger.info("stopping: jobs are brought to a checkpoint and handed back")
        await process.shut_down()
    await asyncio.gather(*running)


async def _keep_trying(act: Callable[[], Awaitable[Any]], stop: asyncio.Event) -> Any:
    """Try until it works: a worker may be up before Temporal is, or before its namespace."""
    while not stop.is_set():
        try:
            return await act()
        except (RPCError, RuntimeError) as error:
            logger.warning("Temporal can't be used yet, trying again: %s", error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _RECONNECT_SECONDS)
    return None


async def _main(settings: WorkerSettings, parts: Sequence[str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await _run(settings, parts, stop)


def _parse_parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise argparse.ArgumentTypeError(f"choose from {', '.join(PARTS)}")
    return parts


def main() -> int:
    """Run the worker; returns the exit code."""
    parser = argparse.ArgumentParser(description="Work on Darkroom's jobs.")
    parser.add_argument(
        "--serve",
        type=_parse_parts,
        default=list(PARTS),
        metavar=",".join(PARTS),
        help="the parts that this process serves, separated by commas (default: all)",
    )
    arguments = parser.parse_args()
    try:
        settings = WorkerSettings.from_environ(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"worker: {error}\n")
        return 2
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    asyncio.run(_main(settings, arguments.serve))
    return 0


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    # The interpreter's own way out can abort while the SDK's threads still run.
    os._exit(code)
