"""`/v1/bulk`: cancelling, pausing and resuming all jobs of a filter."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Response

from api.addresses import bulk_path
from api.bulk import merged
from api.bulk_schemas import BulkRequest, BulkResponse, present_bulk
from api.dependencies import AddressesDependency, BulksDependency
from api.idempotency import IdempotencyKey
from api.json_body import JsonRoute
from api.openapi import FAULT, RETRY_AFTER, UNAVAILABLE, problem
from api.queries import JobFilterQuery
from api.routes.documented import BODY, INVALID, POLL_SECONDS
from api.sites import FetchSite, refuse_other_sites
from workflows.bulk_messages import BulkAction

router = APIRouter(prefix="/v1/bulk", tags=["bulk"], route_class=JsonRoute, responses={500: FAULT})

_HEADERS = {
    "Location": {"description": "The bulk operation", "schema": {"type": "string"}},
    "Retry-After": RETRY_AFTER,
    "Idempotency-Replayed": {
        "description": "`true` where an earlier request with this key has started it",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The operation is accepted, and will be carried out whatever dies meanwhile",
        "headers": _HEADERS,
    },
    403: problem("The request comes from a page of another site"),
    **BODY,
    503: UNAVAILABLE,
}

Accept = Callable[[BulkAction], Awaitable[BulkResponse]]


async def _accept(
    asked: Annotated[JobFilterQuery, Query()],
    response: Response,
    bulks: BulksDependency,
    addresses: AddressesDependency,
    body: Annotated[
        BulkRequest | None, Body(description="Filters and why; may be left out")
    ] = None,
    idempotency_key: IdempotencyKey = None,
    site: FetchSite = None,
) -> Accept:
    """What the three have in common: accepts one action on the jobs of a request."""
    refuse_other_sites(site)
    filters, message = merged(asked, body)

    async def accept(action: BulkAction) -> BulkResponse:
        view, is_replay = await bulks.accept(action, filters, message, idempotency_key)
        response.headers["Location"] = bulk_path(view.id)
        response.headers["Retry-After"] = str(POLL_SECONDS)
        if is_replay:
            response.headers["Idempotency-Replayed"] = "true"
        return present_bulk(view, addresses)

    return accept


AcceptDependency = Annotated[Accept, Depends(_accept)]


@router.post(
    "/cancel",
    status_code=202,
    response_model=BulkResponse,
    summary="Cancel many jobs",
    responses=_ACCEPTED,
)
async def cancel_jobs(accept: AcceptDependency) -> BulkResponse:
    """Cancel all jobs that fit the filters now; without filters, all that are not final.

    Jobs that are accepted later are left alone. The filters can be sent as `GET /v1/jobs` takes
    them, in the body, or some in each.
    """
    return await accept("cancel")


@router.post(
    "/pause",
    status_code=202,
    response_model=BulkResponse,
    summary="Pause many jobs",
    responses=_ACCEPTED,
)
async def pause_jobs(accept: AcceptDependency) -> BulkResponse:
    """Pause all jobs that fit the filters now; see `/v1/bulk/cancel` for the filters.

    Each is asked once: a job that is resumed afterwards stays so.
    """
    return await accept("pause")


@router.post(
    "/resume",
    status_code=202,
    response_model=BulkResponse,
    summary="Resume many jobs",
    responses=_ACCEPTED,
)
async def resume_jobs(accept: AcceptDependency) -> BulkResponse:
    """Resume all jobs that fit the filters now; see `/v1/bulk/cancel` for the filters.

    Each is asked once. Those that are not paused are counted as `refused`.
    """
    return await accept("resume")


@router.get(
    "/{bulk_id}",
    response_model=BulkResponse,
    summary="Read a bulk operation",
    responses={
        200: {"description": "How far it is"},
        404: problem("There is no bulk operation with this id (`BULK_NOT_FOUND`)"),
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def read_bulk(
    bulk_id: Annotated[
        str,
        Path(description="The bulk operation's id", examples=["8d1f0c6e2b7a4f5f9a3e6c1d0b2a4e58"]),
    ],
    bulks: BulksDependency,
    addresses: AddressesDependency,
) -> BulkResponse:
    """Read how far a bulk operation is. Needs no live worker."""
    return present_bulk(await bulks.read(bulk_id), addresses)
