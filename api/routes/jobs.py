"""`/v1/jobs`: start a job, read it, fetch its image, cancel, pause and resume it."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Response

from api.control import goes_on, is_held
from api.dependencies import (
    BaseUrl,
    ControlDependency,
    IfNoneMatch,
    JobsDependency,
    Stopping,
    entity_tag,
    matches,
)
from api.jobs import MEDIA_TYPES
from api.json_body import JsonRoute
from api.openapi import FAULT, problem
from api.presenter import job_path, present_job
from api.schemas import ControlRequest, CreateJobRequest, JobResponse
from api.stopping import unless_stopping
from workflows.messages import JobView

MAX_WAIT_SECONDS = 60
# What a client that polls had better wait between two looks.
POLL_SECONDS = 1

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JsonRoute, responses={500: FAULT})

JobId = Annotated[
    str, Path(description="The job's id", examples=["3f0c9a52b1d84e0f8d4c7a6b5e2f1a90"])
]
Control = Annotated[ControlRequest | None, Body(description="Why; may be left out")]


_RETRY_AFTER = {
    "description": "Seconds until another look is worth while",
    "schema": {"type": "integer"},
}
_ETAG = {"description": "Of exactly this answer", "schema": {"type": "string"}}
_NOT_FOUND = problem("There is no job with this id")
_UNAVAILABLE = {
    **problem("Temporal or the artifact store is out of reach for now"),
    "headers": {"Retry-After": _RETRY_AFTER},
}
_INVALID = problem("The request has faults; `errors` names each of them")
_BODY: dict[int | str, dict[str, Any]] = {
    400: problem("The body is not valid JSON"),
    408: problem("The body did not arrive in time"),
    413: problem("The body is larger than `DARKROOM_MAX_BODY_BYTES`"),
    415: problem("The body is not sent as JSON"),
    422: _INVALID,
}
_CONTROL: dict[int | str, dict[str, Any]] = {
    **_BODY,
    200: {"description": "The state is reached, or was already"},
    202: {
        "description": "The wish is on record and will be carried out, whatever dies meanwhile; "
        "`pending_request` shows it",
        "model": JobResponse,
        "headers": {"Retry-After": _RETRY_AFTER},
    },
    404: _NOT_FOUND,
    503: _UNAVAILABLE,
}
_REFUSED = problem("The job's state doesn't allow it; see `current_state` and `allowed_events`")


@router.post(
    "",
    status_code=202,
    response_model=JobResponse,
    summary="Start a job",
    responses={
        202: {
            "description": "The job is accepted, and can't be lost any more",
            "headers": {
                "Location": {"description": "The job", "schema": {"type": "string"}},
                "Retry-After": _RETRY_AFTER,
            },
        },
        **_BODY,
        503: _UNAVAILABLE,
    },
)
async def create_job(
    asked: CreateJobRequest, response: Response, jobs: JobsDependency, base_url: BaseUrl
) -> JobResponse:
    """Start a job. It waits for a worker if none is free, or none is alive."""
    view = await jobs.create(asked)
    response.headers["Location"] = job_path(view.id)
    response.headers["Retry-After"] = str(POLL_SECONDS)
    return present_job(view, base_url)


@router.get(
    "/{job_id}",
    response_model=JobResponse,
    summary="Read a job",
    responses={
        200: {"description": "The job as it is now", "headers": {"ETag": _ETAG}},
        304: {"description": "The client has this answer already"},
        404: _NOT_FOUND,
        422: _INVALID,
        503: _UNAVAILABLE,
    },
)
async def read_job(
    job_id: JobId,
    jobs: JobsDependency,
    base_url: BaseUrl,
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
    view = await jobs.read(job_id)
    body = _render(view, base_url)
    has_this = if_none_match is None or matches(if_none_match, entity_tag(body))
    if wait and has_this and not view.state.is_terminal:
        change = jobs.read_after_change(view, timedelta(seconds=wait))
        view = await unless_stopping(change, stopping) or view
        body = _render(view, base_url)
    tag = entity_tag(body)
    if matches(if_none_match, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type="application/json", headers={"ETag": tag})


@router.get(
    "/{job_id}/image",
    summary="Fetch the image",
    response_class=Response,
    responses={
        200: {
            "description": "The image's bytes",
            "content": {
                media_type: {"schema": {"type": "string", "format": "binary"}}
                for media_type in MEDIA_TYPES
            },
            "headers": {
                "ETag": {"description": "The image's sha256", "schema": {"type": "string"}}
            },
        },
        304: {"description": "The client has these bytes already"},
        404: _NOT_FOUND,
        409: problem("The job has no image, or not yet; `current_state` tells which"),
        410: problem("The bytes were lost after the job had succeeded (`ARTIFACT_LOST`)"),
        422: _INVALID,
        503: _UNAVAILABLE,
    },
)
async def fetch_image(
    job_id: JobId, jobs: JobsDependency, if_none_match: IfNoneMatch = None
) -> Response:
    """Fetch the image of a job that succeeded."""
    artifact, data = await jobs.image(job_id)
    headers = {
        "ETag": f'"{artifact.sha256}"',
        "Cache-Control": "private, max-age=31536000",
        "X-Content-Type-Options": "nosniff",
    }
    if matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=artifact.media_type, headers=headers)


@router.post(
    "/{job_id}/cancel", response_model=JobResponse, summary="Cancel a job", responses=_CONTROL
)
async def cancel_job(
    job_id: JobId,
    response: Response,
    jobs: ControlDependency,
    base_url: BaseUrl,
    control: Control = None,
) -> JobResponse:
    """Cancel a job; a finished one is answered as it is."""
    view = await jobs.cancel(job_id, control.message if control else "")
    return _controlled(view, base_url, response, is_done=view.state.is_terminal)


@router.post(
    "/{job_id}/pause",
    response_model=JobResponse,
    summary="Pause a job",
    responses={**_CONTROL, 409: _REFUSED},
)
async def pause_job(
    job_id: JobId,
    response: Response,
    jobs: ControlDependency,
    base_url: BaseUrl,
    control: Control = None,
) -> JobResponse:
    """Stop a job at its next checkpoint, or hold it back before it starts."""
    view = await jobs.pause(job_id, control.message if control else "")
    return _controlled(view, base_url, response, is_done=is_held(view))


@router.post(
    "/{job_id}/resume",
    response_model=JobResponse,
    summary="Resume a job",
    responses={**_CONTROL, 409: _REFUSED},
)
async def resume_job(
    job_id: JobId,
    response: Response,
    jobs: ControlDependency,
    base_url: BaseUrl,
    control: Control = None,
) -> JobResponse:
    """Go on with a paused job, or take back a pause that is not yet carried out."""
    view = await jobs.resume(job_id, control.message if control else "")
    return _controlled(view, base_url, response, is_done=goes_on(view))


def _controlled(view: JobView, base_url: str, response: Response, *, is_done: bool) -> JobResponse:
    if not is_done:
        response.status_code = 202
        response.headers["Retry-After"] = str(POLL_SECONDS)
    return present_job(view, base_url)


def _render(view: JobView, base_url: str) -> bytes:
    return present_job(view, base_url).model_dump_json().encode()
