"""What `/v1/stats`, `/v1/workers` and `/v1/engines` tell, each remembered for some seconds."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client

from activities.artifacts import ArtifactStore
from activities.declarations import Declared, read_declaration
from activities.fresh import Fresh
from api.outage import answered, queried
from workflows.fleet import FleetWorker, Service, read_fleet, serving
from workflows.names import POSTPROCESS_TASK_QUEUE, generate_task_queue
from workflows.presence import Presence, QueuePresence
from workflows.remembering import Remembered
from workflows.stats import JobStats, StatsReader

STATS_SECONDS = 5.0
_FLEET_SECONDS = 2.0
_DECLARED_SECONDS = 5.0
# Figures take a slow server a while.
_WITHIN = timedelta(seconds=20)


@dataclass(frozen=True)
class EngineStanding:
    """An engine, who serves it, and what waits for it."""

    name: str
    is_default: bool
    queue: QueuePresence
    services: tuple[Service, ...]


class Fleet:
    """The service as a whole, and the figures of each tenant's jobs."""

    def __init__(
        self, client: Client, store: ArtifactStore, engines: tuple[str, ...], presence: Presence
    ) -> None:
        self._client = client
        self._store = store
        self._engines = engines
        self._presence = presence
        # A tenant has a key, so that there are no more of them than people have made.
        self._stats: dict[str, Remembered[JobStats]] = {}
        self._declared = Fresh(self._read_declarations, _DECLARED_SECONDS)
        self._workers = Remembered(lambda: read_fleet(client), _FLEET_SECONDS)

    async def stats(self, tenant: str) -> JobStats:
        """The figures of the tenant's jobs."""
        if tenant not in self._stats:
            reader = StatsReader(self._client, tenant)
            self._stats[tenant] = Remembered(reader.read, STATS_SECONDS)
        async with queried(self._client, _WITHIN):
            return await self._stats[tenant].get()

    async def workers(self) -> tuple[FleetWorker, ...]:
        """The worker processes."""
        async with answered():
            return await self._workers.get()

    async def engines(self) -> list[EngineStanding]:
        """The configured engines; the first is the default."""
        workers = await self.workers()
        queues = await asyncio.gather(*map(self._queue_of, self._engines))
        return [
            EngineStanding(name, name == self._engines[0], queue, tuple(serving(workers, name)))
            for name, queue in zip(self._engines, queues, strict=True)
        ]

    async def declared(self, engine: str) -> Declared:
        """What an engine can do, as it was last told; nothing of it where nobody could tell."""
        await self._declared.look()
        return (self._declared.value or {}).get(engine, Declared())

    async def _read_declarations(self) -> dict[str, Declared]:
        return {engine: await read_declaration(self._store, engine) for engine in self._engines}

    async def removals(self) -> QueuePresence:
        """What waits for the removal of its label."""
        async with answered():
            return await self._presence.of_activities(POSTPROCESS_TASK_QUEUE)

    async def _queue_of(self, engine: str) -> QueuePresence:
        async with answered():
            return await self._presence.of_activities(generate_task_queue(engine))
