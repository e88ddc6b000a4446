"""`/v1/stats`, `/v1/workers` and `/v1/engines`: the service as a whole."""

from fastapi import APIRouter

from api.dependencies import FleetDependency, JobsDependency
from api.fleet_presenter import present_engine, present_stats, present_worker
from api.fleet_schemas import EnginesResponse, StatsResponse, WorkersResponse
from api.openapi import FAULT, UNAVAILABLE

router = APIRouter(prefix="/v1", tags=["service"], responses={500: FAULT, 503: UNAVAILABLE})


@router.get(
    "/stats",
    response_model=StatsResponse,
    summary="Read figures of the jobs",
    responses={200: {"description": "The figures; `at` tells how old they are"}},
)
async def read_stats(fleet: FleetDependency, jobs: JobsDependency) -> StatsResponse:
    """Read how many jobs are in each state, how long they take and wait, and which are slow."""
    engines, removals = await fleet.engines(), await fleet.removals()
    return present_stats(await fleet.stats(jobs.caller.tenant), engines, removals)


@router.get(
    "/workers",
    response_model=WorkersResponse,
    summary="List the workers",
    responses={200: {"description": "The worker processes"}},
)
async def list_workers(fleet: FleetDependency) -> WorkersResponse:
    """List the worker processes, by their heartbeats, which come every five seconds."""
    return WorkersResponse(workers=[present_worker(worker) for worker in await fleet.workers()])


@router.get(
    "/engines",
    response_model=EnginesResponse,
    summary="List the engines",
    responses={200: {"description": "The configured engines"}},
)
async def list_engines(fleet: FleetDependency) -> EnginesResponse:
    """List the configured engines, what they can do, who serves them, and what waits for them."""
    engines = await fleet.engines()
    return EnginesResponse(
        engines=[present_engine(one, await fleet.declared(one.name)) for one in engines]
    )
