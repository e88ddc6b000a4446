"""Whether this process lives, and whether what it stands on does."""

import asyncio
from datetime import timedelta

from fastapi import APIRouter, Request, Response
from temporalio.client import Client
from temporalio.service import RPCError

from activities.artifacts import ArtifactStore
from activities.errors import WorkError
from api.schemas import HealthResponse, ReadinessResponse

router = APIRouter(tags=["health"])

_CHECK_SECONDS = 2.0


@router.get("/healthz", summary="Liveness", response_model=HealthResponse)
async def healthz() -> HealthResponse:
    """200 as long as the process answers."""
    return HealthResponse(status="ok")


@router.get(
    "/readyz",
    summary="Readiness",
    response_model=ReadinessResponse,
    responses={
        200: {"description": "Jobs can be started and images read"},
        503: {
            "description": "Temporal or the artifact store is out of reach",
            "model": ReadinessResponse,
        },
    },
)
async def readyz(request: Request, response: Response) -> ReadinessResponse:
    """503 while Temporal or the artifact store is out of reach."""
    state = request.app.state
    temporal, store = await asyncio.gather(
        _temporal_answers(state.client), _store_answers(state.store)
    )
    ready = temporal and store
    response.status_code = 200 if ready else 503
    return ReadinessResponse(ready=ready, temporal=temporal, store=store)


async def _temporal_answers(client: Client) -> bool:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await client.service_client.check_health(
                timeout=timedelta(seconds=_CHECK_SECONDS)
            )
    # A lazy client that can't connect raises RuntimeError.
    except (RPCError, RuntimeError, TimeoutError):
        return False


async def _store_answers(store: ArtifactStore) -> bool:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await store.check()
    except (WorkError, TimeoutError):
        return False
    return True
