"""From what is known of the service to what a client gets."""

from collections.abc import Iterable

from activities.declarations import Declared
from api.fleet import EngineStanding
from api.fleet_schemas import (
    BacklogResponse,
    CapabilitiesResponse,
    EngineBacklogResponse,
    EngineResponse,
    PercentilesResponse,
    ServiceResponse,
    SlowJobResponse,
    StatsResponse,
    WindowResponse,
    WorkerResponse,
)
from workflows.fleet import FleetWorker
from workflows.messages import JobView
from workflows.presence import QueuePresence
from workflows.starting import priority_of
from workflows.stats import WINDOW, WINDOW_JOBS, JobStats


def present_stats(
    stats: JobStats, engines: Iterable[EngineStanding], removals: QueuePresence
) -> StatsResponse:
    """Figures of a tenant's jobs, and what waits in all."""
    return StatsResponse(
        at=stats.at,
        states=stats.counts,
        window=WindowResponse(
            seconds=int(WINDOW.total_seconds()), max_jobs=WINDOW_JOBS, jobs=stats.window_jobs
        ),
        duration_seconds=PercentilesResponse(**stats.duration.model_dump()),
        waiting_seconds=PercentilesResponse(**stats.waiting.model_dump()),
        backlog=[
            EngineBacklogResponse(engine=engine.name, **dict(_backlog(engine.queue)))
            for engine in engines
        ],
        removals_backlog=_backlog(removals),
        slowest=[_slow_job(view) for view in stats.slowest],
    )


def present_worker(worker: FleetWorker) -> WorkerResponse:
    """One worker process."""
    return WorkerResponse(
        status=worker.state,
        serves=[ServiceResponse(**service.model_dump()) for service in worker.serves],
        **worker.model_dump(exclude={"state", "serves"}),
    )


def present_engine(engine: EngineStanding, declared: Declared) -> EngineResponse:
    """One engine."""
    return EngineResponse(
        name=engine.name,
        is_default=engine.is_default,
        is_served=engine.queue.is_served,
        workers=len(engine.services),
        slots_used=sum(service.slots_used for service in engine.services),
        slots_free=sum(service.slots_free for service in engine.services),
        capabilities=CapabilitiesResponse(**declared.model_dump()),
        backlog=_backlog(engine.queue),
    )


def _backlog(queue: QueuePresence) -> BacklogResponse:
    waiting: dict[int, int] = {}
    for key, count in sorted(queue.backlog.items()):
        if count > 0:
            priority = priority_of(key)
            waiting[priority] = waiting.get(priority, 0) + count
    by_priority = {str(priority): count for priority, count in waiting.items()}
    return BacklogResponse(waiting=sum(waiting.values()), by_priority=by_priority)


def _slow_job(view: JobView) -> SlowJobResponse:
    return SlowJobResponse(
        id=view.id,
        type=view.request.type if view.request else "TEXT_TO_IMAGE",
        engine=view.request.engine if view.request else None,
        worker=view.status.worker,
        attempt=view.status.attempt,
        processing_since=view.updated_at,
        deadline_at=view.status.deadline_at,
    )
