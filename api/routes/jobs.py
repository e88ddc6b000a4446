"""`/v1/jobs`: start a job, read it, amend, cancel, pause and resume it."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from api.addresses import Addresses, job_path
from api.amending_schemas import AmendJobRequest
from api.chains import Chains
from api.control import goes_on
from api.dependencies import (
    AddressesDependency,
    ChainsDependency,
    ControlDependency,
    IfNoneMatch,
    JobsDependency,
    Stopping,
    entity_tag,
    matches,
)
from api.idempotency import IdempotencyKey
from api.job_schemas import JobResponse
from api.jobs import Created
from api.json_body import JsonRoute
from api.openapi import FAULT, UNAVAILABLE, problem
from api.presenter import present_job
from api.routes.documented import (
    ACCEPTED_HEADERS,
    AMEND,
    BODY,
    CONTROL,
    ETAG,
    INVALID,
    NOT_FOUND,
    POLL_SECONDS,
    REFUSED,
    JobId,
)
from api.schemas import ControlRequest, CreateJobRequest
from api.stopping import unless_stopping
from workflows.asking import is_held
from workflows.messages import JobView

MAX_WAIT_SECONDS = 60

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JsonRoute, responses={500: FAULT})

Control = Annotated[ControlRequest | None, Body(description="Why; may be left out")]


@router.post(
    "",
    status_code=202,
    response_model=JobResponse,
    summary="Start a job",
    responses={
        202: {
            "description": "The job is accepted, and can't be lost any more",
            "headers": ACCEPTED_HEADERS,
        },
        **BODY,
        503: UNAVAILABLE,
    },
)
async def create_job(
    asked: CreateJobRequest,
    response: Response,
    jobs: JobsDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
    idempotency_key: IdempotencyKey = None,
) -> JobResponse:
    """Start a job. It waits for a worker if none is free, or none is alive."""
    intent = None if idempotency_key is None else jobs.intent(idempotency_key, asked)
    created = await jobs.create(asked, intent)
    return await _accepted(chains, created, addresses, response)


@router.post(
    "/{job_id}/retry",
    status_code=202,
    response_model=JobResponse,
    summary="Try a job again",
    responses={
        202: {
            "description": "A new job with the same request, seed included",
            "headers": ACCEPTED_HEADERS,
        },
        404: NOT_FOUND,
        409: problem("The job has an image, or is not over"),
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def retry_job(
    job_id: JobId,
    response: Response,
    jobs: JobsDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
    idempotency_key: IdempotencyKey = None,
) -> JobResponse:
    """Start a job that asks the same as one that ended without an image, or has lost it."""
    created = await chains.retry(job_id, idempotency_key)
    return await _accepted(chains, created, addresses, response)


@router.get(
    "/{job_id}",
    response_model=JobResponse,
    summary="Read a job",
    responses={
        200: {"description": "The job as it is now", "headers": {"ETag": ETAG}},
        304: {"description": "The client has this answer already"},
        404: NOT_FOUND,
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def read_job(
    job_id: JobId,
    jobs: JobsDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
    stopping: Stopping,
    wait: Annotated[
        float,
        Query(
            ge=0,
            le=MAX_WAIT_SECONDS,
            allow_inf_nan=False,
            description="Seconds to wait for the state to change before answering",
        ),
    ] = 0,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Read a job. Needs no live worker."""
    view = await chains.read(job_id)
    body = _render(view, addresses)
    has_this = if_none_match is None or matches(if_none_match, entity_tag(body))
    if wait and has_this and not view.state.is_terminal:
        change = jobs.read_after_change(view, timedelta(seconds=wait))
        view = await chains.placed(await unless_stopping(change, stopping) or view)
        body = _render(view, addresses)
    tag = entity_tag(body)
    if matches(if_none_match, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type="application/json", headers={"ETag": tag})


@router.patch("/{job_id}", response_model=JobResponse, summary="Amend a job", responses=AMEND)
async def amend_job(
    job_id: JobId,
    asked: AmendJobRequest,
    response: Response,
    wishes: ControlDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
) -> JobResponse:
    """Change the priority of a job that waits, or the time limit of one that is not over."""
    amended = await wishes.amend(job_id, asked)
    return await _controlled(chains, amended.view, addresses, response, is_done=amended.is_done)


@router.post(
    "/{job_id}/cancel", response_model=JobResponse, summary="Cancel a job", responses=CONTROL
)
async def cancel_job(
    job_id: JobId,
    response: Response,
    wishes: ControlDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
    control: Control = None,
) -> JobResponse:
    """Cancel a job; a finished one is answered as it is."""
    view = await wishes.cancel(job_id, control.message if control else "")
    return await _controlled(chains, view, addresses, response, is_done=view.state.is_terminal)


@router.post(
    "/{job_id}/pause",
    response_model=JobResponse,
    summary="Pause a job",
    responses={**CONTROL, 409: REFUSED},
)
async def pause_job(
    job_id: JobId,
    response: Response,
    wishes: ControlDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
    control: Control = None,
) -> JobResponse:
    """Stop a job at its next checkpoint, or hold it back before it starts."""
    view = await wishes.pause(job_id, control.message if control else "")
    return await _controlled(chains, view, addresses, response, is_done=is_held(view))


@router.post(
    "/{job_id}/resume",
    response_model=JobResponse,
    summary="Resume a job",
    responses={**CONTROL, 409: REFUSED},
)
async def resume_job(
    job_id: JobId,
    response: Response,
    wishes: ControlDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
    control: Control = None,
) -> JobResponse:
    """Go on with a paused job, or take back a pause that is not yet carried out."""
    view = await wishes.resume(job_id, control.message if control else "")
    return await _controlled(chains, view, addresses, response, is_done=goes_on(view))


async def _controlled(
    chains: Chains, view: JobView, addresses: Addresses, response: Response, *, is_done: bool
) -> JobResponse:
    if not is_done:
        response.status_code = 202
        response.headers["Retry-After"] = str(POLL_SECONDS)
    return present_job(await chains.placed(view), addresses)


async def _accepted(
    chains: Chains, created: Created, addresses: Addresses, response: Response
) -> JobResponse:
    response.headers["Location"] = job_path(created.view.id)
    response.headers["Retry-After"] = str(POLL_SECONDS)
    if created.is_replay:
        response.headers["Idempotency-Replayed"] = "true"
    return present_job(await chains.placed(created.view), addresses)


def _render(view: JobView, addresses: Addresses) -> bytes:
    return present_job(view, addresses).model_dump_json().encode()
