"""Composition root of the worker process: settings → store, engines → workers.

The only file that names engines.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import NoReturn

from temporalio.client import Client
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.worker import Worker

from activities.archive import ArchiveActivities
from activities.artifacts import ArtifactStore, is_usable, open_store
from activities.callbacks.activity import CallbackActivities
from activities.callbacks.book import CallbackBook
from activities.engines.base import ImageEngine
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.health import serve_health
from activities.label_settings import LabelSettings
from activities.settings import SettingsError, WorkerSettings
from workflows.archiving import VisibleClosedJobs, ensure_archiver
from workflows.client import WORKER_HEARTBEAT_INTERVAL, connect
from workflows.deciding import workflow_worker
from workflows.process import WorkerProcess, is_done_before, keep_trying
from workflows.search_attributes import register_search_attributes
from workflows.serving import LABEL_REMOVER, StartEngine, WorkParts, open_scratch

BUILT_IN_ENGINES = {
    "procedural": "activities.engines.procedural:ProceduralEngine",
    "diffusers": "activities.engines.diffusers:DiffusersEngine",
}
_LABEL_REMOVER = "activities.engines.label_remover:LabelRemover"
PARTS = ("workflows", "generate", "postprocess")

logger = logging.getLogger("darkroom.worker")


def _workflow_worker(client: Client, settings: WorkerSettings, store: ArtifactStore) -> Worker:
    callbacks = CallbackActivities(settings.callback_rules, CallbackBook(store))
    archive = ArchiveActivities(
        store,
        VisibleClosedJobs(client),
        timedelta(seconds=settings.archive_settle_seconds),
    )
    return workflow_worker(client, [archive.archive_closed_jobs, callbacks.send_callback])


def _engines(settings: WorkerSettings) -> StartEngine:
    """Starts engines by name, each slot in a child process of its own."""
    limits = StallLimits(
        load=settings.stall_load_seconds,
        step=settings.stall_step_seconds,
        decode=settings.stall_decode_seconds,
    )
    classes = {
        **{name: spec or BUILT_IN_ENGINES[name] for name, spec in settings.engine_classes.items()},
        LABEL_REMOVER: _LABEL_REMOVER,
    }

    async def start(name: str, slots: int, stack: AsyncExitStack) -> ImageEngine:
        grace = settings.cancel_grace_seconds
        engine = ChildProcessEngine(name, classes[name], slots, limits, grace)
        stack.push_async_callback(engine.stop)
        await engine.start()
        return engine

    return start


async def _prepare(
    process: WorkerProcess,
    settings: WorkerSettings,
    labels: LabelSettings,
    store: ArtifactStore,
    parts: Sequence[str],
    stack: AsyncExitStack,
) -> None:
    """Connect and load, however long that takes."""
    # Through Python's logging, so that one file has one format, and no colours.
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    core_log = LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forwarding
    )
    runtime = Runtime(
        telemetry=TelemetryConfig(logging=core_log),
        worker_heartbeat_interval=WORKER_HEARTBEAT_INTERVAL,
    )
    client = await keep_trying(lambda: connect(runtime=runtime))
    await keep_trying(lambda: register_search_attributes(client))
    if "workflows" in parts:
        interval = timedelta(seconds=settings.archive_interval_seconds)
        await keep_trying(lambda: ensure_archiver(client, interval))
        process.workflows.append(_workflow_worker(client, settings, store))
    # In a thread: it may wait for another worker's start, or sweep what a dead one has left.
    scratch = await asyncio.to_thread(open_scratch, settings)
    stack.callback(scratch.close)
    work = WorkParts(process, client, settings, store, scratch, stack, _engines(settings))
    if "generate" in parts:
        await work.add_generation(labels.finisher())
    if "postprocess" in parts:
        await work.add_postprocessing(labels.signer())
    process.client = client


async def _run(
    settings: WorkerSettings, labels: LabelSettings, parts: Sequence[str], stop: asyncio.Event
) -> None:
    process = WorkerProcess()
    store = open_store(settings.artifacts_url, settings.stall_store_seconds)

    async def is_ready() -> bool:
        return await process.is_ready() and await is_usable(store)

    async with AsyncExitStack() as stack:
        # First, so that a worker which waits for Temporal or for its models is seen to be alive.
        port = await stack.enter_async_context(
            serve_health(settings.health_host, settings.health_port, is_ready)
        )
        logger.info("starting; health on port %d", port)
        if await is_done_before(stop, _prepare(process, settings, labels, store, parts, stack)):
            identity = process.client.identity if process.client else ""
            logger.info("serving %s as %s; health on port %d", ",".join(parts), identity, port)
            await process.serve(stop)


async def _main(settings: WorkerSettings, labels: LabelSettings, parts: Sequence[str]) -> NoReturn:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    code = 0
    try:
        await _run(settings, labels, parts, stop)
    except SettingsError as error:
        code = _refuse(error)
    except Exception:
        logger.exception("the worker failed")
        code = 1
    logging.shutdown()
    # Not by the interpreter's way out, which can abort while the SDK's threads still run, nor by
    # asyncio's, which waits for a thread that hangs in the store.
    os._exit(code)


def _refuse(error: SettingsError) -> int:
    sys.stderr.write(f"worker: {error}\n")
    sys.stderr.flush()
    return 2


def _read_settings() -> WorkerSettings:
    settings = WorkerSettings.from_environ(os.environ)
    for name, spec in settings.engine_classes.items():
        if not spec and name not in BUILT_IN_ENGINES:
            raise SettingsError(
                f"DARKROOM_ENGINES: no engine {name} is built in; name its class, "
                f"{name}=module:Class"
            )
    return settings


def _read_label_settings() -> LabelSettings:
    """Draws the label, reads all profiles and signs once, to say at the start what is wrong."""
    settings = LabelSettings.from_environ(os.environ)
    settings.known_labels()
    settings.signer()
    return settings


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
        settings, labels = _read_settings(), _read_label_settings()
    except SettingsError as error:
        return _refuse(error)
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    return asyncio.run(_main(settings, labels, arguments.serve))


if __name__ == "__main__":
    sys.exit(main())
