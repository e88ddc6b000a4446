"""`GET /v1/jobs`: lists."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.dependencies import AddressesDependency, JobsDependency, ListsDependency
from api.openapi import FAULT, UNAVAILABLE, problem
from api.presenter import present_job
from api.queries import JobListResponse, ListJobsQuery
from api.routes.documented import INVALID

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], responses={500: FAULT})


@router.get(
    "",
    response_model=JobListResponse,
    summary="List jobs",
    responses={
        200: {"description": "One page of the list"},
        400: problem("The page token is broken, or of another list (`INVALID_PAGE_TOKEN`)"),
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def list_jobs(
    asked: Annotated[ListJobsQuery, Query()],
    jobs: JobsDependency,
    lists: ListsDependency,
    addresses: AddressesDependency,
) -> Response:
    """List jobs, newest first. While jobs are added, pages neither repeat nor miss any.

    Each job is told as `GET /v1/jobs/{job_id}` tells it, except that `waiting_for` and, before
    SUCCESS, `progress` may be null, and that a change of the last moments may not be seen yet.
    Jobs are listed for as long as Temporal keeps them.
    """
    views, token = await lists.page(asked, jobs.caller.tenant)
    told = [present_job(view, addresses) for view in views]
    body = JobListResponse(jobs=told, next_page_token=token).model_dump_json()
    # As it is: FastAPI would check each of the jobs once more.
    return Response(body, media_type="application/json")
