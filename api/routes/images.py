"""`/v1/jobs/{id}/image`, and the copy of it without its visible label."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.addresses import job_path
from api.dependencies import (
    AddressesDependency,
    ChainsDependency,
    ClientAddress,
    IfNoneMatch,
    IsHead,
    JobsDependency,
    matches,
)
from api.images import MEDIA_TYPES
from api.job_schemas import JobResponse
from api.json_body import JsonRoute
from api.openapi import FAULT, UNAVAILABLE, problem
from api.presenter import present_job
from api.routes.documented import (
    ACCEPTED_HEADERS,
    BODY,
    INVALID,
    LINK_PARAMETERS,
    NOT_FOUND,
    POLL_SECONDS,
    JobId,
)
from api.schemas import RemoveLabelRequest

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JsonRoute, responses={500: FAULT})


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
        403: problem("The link was altered (`LINK_INVALID`), or its time is over (`LINK_EXPIRED`)"),
        404: NOT_FOUND,
        409: problem("The job has no image, or not yet; `current_state` tells which"),
        410: problem("The bytes were lost after the job had succeeded (`ARTIFACT_LOST`)"),
        422: INVALID,
        503: UNAVAILABLE,
    },
    # Looked at before the route is.
    openapi_extra={"parameters": LINK_PARAMETERS},
)
async def fetch_image(
    job_id: JobId,
    jobs: JobsDependency,
    chains: ChainsDependency,
    address: ClientAddress,
    is_head: IsHead,
    final: Annotated[
        bool, Query(description="The image of the chain's last job that has one")
    ] = False,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Fetch the image of a job that succeeded, with a key or by the link in a job's `image_url`.

    Who is given a copy without its visible label is put on record first.
    """
    view = await jobs.read(job_id)
    if final:
        view = await chains.last_finished(view)
    artifact, data = await jobs.image(view)
    headers = {
        "ETag": f'"{artifact.sha256}"',
        "Cache-Control": "private, max-age=31536000",
        "X-Content-Type-Options": "nosniff",
    }
    if matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    # HEAD gives nobody a copy.
    if not is_head:
        await chains.record_delivery(view, artifact, address)
    return Response(data, media_type=artifact.media_type, headers=headers)


@router.post(
    "/{job_id}/watermark-removal",
    status_code=202,
    response_model=JobResponse,
    summary="Remove the visible label",
    responses={
        202: {
            "description": "The job that removes it: a new one, or the one that there is",
            "headers": ACCEPTED_HEADERS,
        },
        **BODY,
        404: NOT_FOUND,
        409: problem("The job has no image, or is itself a removal"),
        410: problem("The bytes were lost after the job had succeeded (`ARTIFACT_LOST`)"),
        503: UNAVAILABLE,
    },
)
async def remove_label(
    job_id: JobId,
    asked: RemoveLabelRequest,
    response: Response,
    chains: ChainsDependency,
    addresses: AddressesDependency,
) -> JobResponse:
    """Start the job that makes a copy of the image without its visible label.

    There is one for each image: asked again, the answer is the same job, unless it had ended
    without a copy.
    """
    view = await chains.remove_label(job_id, asked)
    response.headers["Location"] = job_path(view.id)
    response.headers["Retry-After"] = str(POLL_SECONDS)
    return present_job(await chains.placed(view), addresses)
