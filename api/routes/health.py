"""Whether this process lives, and whether what it stands on does."""

import asyncio
from datetime import timedelta

from fastapi import APIRouter, Request, Response
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from activities.artifacts import ArtifactStore
from activities.errors import WorkError
from api.openapi import FAULT
from api.outage import answered
from api.problems import RETRY_AFTER_SECONDS, TemporalUnavailable
from api.schemas import HealthResponse, ReadinessResponse

router = APIRouter(tags=["health"], responses={500: FAULT})

_CHECK_WITHIN = timedelta(seconds=2)


@router.get(
    "/healthz",
    summary="Liveness",
    response_model=HealthResponse,
    responses={200: {"description": "The process answers"}},
)
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
            "headers": {
                "Retry-After": {
                    "description": "Seconds until another look is worth while",
                    "schema": {"type": "integer"},
                }
            },
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
    if not ready:
        response.status_code = 503
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return ReadinessResponse(ready=ready, temporal=temporal, store=store)


async def _temporal_answers(client: Client) -> bool:
    """Whether it knows our namespace, too: a server that doesn't can start no job."""
    try:
        async with answered(_CHECK_WITHIN):
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=client.namespace)
            )
    except TemporalUnavailable:
        return False
    return True


async def _store_answers(store: ArtifactStore) -> bool:
    try:
        async with asyncio.timeout(_CHECK_WITHIN.total_seconds()):
            await store.check()
    except (WorkError, TimeoutError):
        return False
    return True
