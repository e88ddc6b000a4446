"""The parts of a worker that do jobs' work: an engine, its activities, and their task queue."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, TypeAlias

from temporalio.client import Client
from temporalio.worker import Worker

from activities.artifacts import ArtifactStore
from activities.declarations import keep_declaring
from activities.engine_work import EngineWork
from activities.engines.base import ImageEngine
from activities.finishing import Finisher
from activities.generation import GenerationActivities
from activities.ownership import TemporalOwnership
from activities.scratch import Scratch
from activities.settings import SettingsError, WorkerSettings
from activities.signing import Signer
from activities.stops import StopGraces
from activities.watermark import WatermarkActivities
from workflows.names import POSTPROCESS_TASK_QUEUE, generate_task_queue
from workflows.process import WorkerProcess

# No engine can be called so: names have no spaces.
LABEL_REMOVER = "label remover"

# The default would let progress be seen, and a cancel heard, only every few seconds.
_HEARTBEAT_THROTTLE = timedelta(milliseconds=200)

# Starts the engine of this name with so many slots; the stack stops it.
StartEngine: TypeAlias = Callable[[str, int, AsyncExitStack], Awaitable[ImageEngine]]


class WorkParts:
    """Builds the parts of a worker that do jobs' work, and undoes them with the stack."""

    def __init__(
        self,
        process: WorkerProcess,
        client: Client,
        settings: WorkerSettings,
        store: ArtifactStore,
        scratch: Scratch,
        stack: AsyncExitStack,
        start_engine: StartEngine,
    ) -> None:
        self._process = process
        self._client = client
        self._settings = settings
        self._store = store
        self._stack = stack
        self._start_engine = start_engine
        self._scratch = scratch

    async def add_generation(self, finisher: Finisher) -> None:
        """One queue for each engine."""
        slots = self._settings.generate_slots
        engines: list[ImageEngine] = []
        for name in self._settings.engine_classes:
            engines.append(await self._start_engine(name, slots, self._stack))
            activities = GenerationActivities(self._work_with(engines[-1]), finisher)
            self._serve(activities.generate_image, generate_task_queue(name), slots)
        # Beside the work: a store that hangs must not keep the worker from serving.
        declaring = asyncio.create_task(keep_declaring(self._store, engines))
        self._stack.callback(declaring.cancel)

    async def add_postprocessing(self, signer: Signer) -> None:
        """One queue for all labels."""
        slots = self._settings.postprocess_slots
        engine = await self._start_engine(LABEL_REMOVER, slots, self._stack)
        activities = WatermarkActivities(self._work_with(engine), signer)
        self._serve(activities.remove_watermark, POSTPROCESS_TASK_QUEUE, slots)

    def _work_with(self, engine: ImageEngine) -> EngineWork:
        work = EngineWork(
            engine,
            self._store,
            self._scratch,
            TemporalOwnership(self._client),
            self._client.identity,
            _graces(self._settings),
            self._settings.stall_store_seconds,
        )
        self._process.engines.append(work)
        return work

    def _serve(self, activity: Callable[..., Any], task_queue: str, slots: int) -> None:
        worker = _work_worker(self._client, self._settings, activity, task_queue, slots)
        self._process.work.append(worker)


def _work_worker(
    client: Client,
    settings: WorkerSettings,
    activity: Callable[..., Any],
    task_queue: str,
    slots: int,
) -> Worker:
    return Worker(
        client,
        task_queue=task_queue,
        activities=[activity],
        max_concurrent_activities=slots,
        # One open poll: what the server hands to a frozen worker waits for its heartbeat timeout.
        max_concurrent_activity_task_polls=1,
        max_heartbeat_throttle_interval=_HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=_HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=timedelta(seconds=settings.grace_seconds),
        disable_eager_activity_execution=True,
    )


def _graces(settings: WorkerSettings) -> StopGraces:
    return StopGraces(
        cancel=timedelta(seconds=settings.cancel_grace_seconds),
        pause=timedelta(seconds=settings.pause_grace_seconds),
        # What is left of the grace is for storing the checkpoint and telling the workflow.
        worker_stopping=timedelta(seconds=settings.grace_seconds * 0.75),
    )


def open_scratch(settings: WorkerSettings) -> Scratch:
    """The worker's own folder for temporary files; raises `SettingsError`."""
    try:
        return Scratch(settings.data_dir.absolute() / "tmp", settings.stall_store_seconds)
    except OSError as error:
        raise SettingsError(f"DARKROOM_DATA_DIR: {error.strerror}") from error
