"""`/api/task`: the same jobs, for front ends that were written to the older shape."""

from typing import Annotated, Literal

from fastapi import APIRouter, Body
from pydantic import BaseModel, Field

from api.addresses import Addresses
from api.dependencies import (
    AddressesDependency,
    ChainsDependency,
    ControlDependency,
    JobsDependency,
)
from api.job_schemas import TransitionResponse
from api.json_body import JsonRoute
from api.openapi import FAULT, UNAVAILABLE, problem
from api.routes.documented import INVALID, NOT_FOUND, JobId
from api.schemas import CreateJobRequest
from api.sites import FetchSite, refuse_other_sites
from api.tasks import Task, TaskStatus


class TaskRoute(JsonRoute):
    """Takes JSON of any content type, and of none."""

    takes_any_type = True


router = APIRouter(
    prefix="/api/task", tags=["older shape"], route_class=TaskRoute, responses={500: FAULT}
)


class SubmitTaskRequest(CreateJobRequest):
    """What `POST /v1/jobs` takes, and a type."""

    type: Literal["TEXT_TO_IMAGE"] = Field(
        default="TEXT_TO_IMAGE", description="The only type that can be submitted"
    )


class SubmitTaskResponse(BaseModel):
    """The task that was started."""

    taskId: str = Field(description="The job's id")  # noqa: N815 - the older shape's own name


class TaskResponse(BaseModel):
    """A task as the older shape tells it."""

    taskId: str = Field(description="The job's id")  # noqa: N815
    status: TaskStatus = Field(description="PROCESSING until the whole chain is done")
    progress: int = Field(description="Percent; 100 only with SUCCESS")
    resultUrl: str | None = Field(description="Where the final image is")  # noqa: N815
    errorMsg: str | None = Field(description="Why there is none")  # noqa: N815
    history: list[TransitionResponse] = Field(description="The story of the task, in order")


@router.post(
    "/submit",
    response_model=SubmitTaskResponse,
    summary="Start a task",
    responses={
        200: {"description": "The task is accepted, and can't be lost any more"},
        400: problem("The body is not valid JSON"),
        403: problem("The request comes from a page of another site"),
        408: problem("The body did not arrive in time"),
        413: problem("The body is larger than `DARKROOM_MAX_BODY_BYTES`"),
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def submit_task(
    asked: Annotated[SubmitTaskRequest, Body()], jobs: JobsDependency, site: FetchSite = None
) -> SubmitTaskResponse:
    """Start a job, whatever content type its JSON is sent with."""
    refuse_other_sites(site)
    created = await jobs.create(asked)
    return SubmitTaskResponse(taskId=created.view.id)


@router.get(
    "/{job_id}/status",
    response_model=TaskResponse,
    summary="Read a task",
    responses={
        200: {"description": "The task as it is now"},
        404: NOT_FOUND,
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def read_task(
    job_id: JobId, jobs: JobsDependency, chains: ChainsDependency, addresses: AddressesDependency
) -> TaskResponse:
    """Read a job and its removal as one task."""
    return _present(await chains.task(await jobs.read(job_id)), addresses)


@router.post(
    "/{job_id}/cancel",
    response_model=TaskResponse,
    summary="Cancel a task",
    responses={
        200: {"description": "The task as it is now; what was asked for may be yet to come"},
        403: problem("The request comes from a page of another site"),
        404: NOT_FOUND,
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def cancel_task(
    job_id: JobId,
    jobs: JobsDependency,
    wishes: ControlDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
    site: FetchSite = None,
) -> TaskResponse:
    """Cancel what still runs of a task; a finished one is told as it is."""
    refuse_other_sites(site)
    task = await chains.task(await jobs.read(job_id))
    for running in task.unfinished:
        await wishes.cancel(running, "")
    return _present(await chains.task(await jobs.read(job_id)), addresses)


def _present(task: Task, addresses: Addresses) -> TaskResponse:
    return TaskResponse(
        taskId=task.id,
        status=task.status,
        progress=task.progress,
        resultUrl=addresses.image(task.id, final=True) if task.has_image else None,
        errorMsg=task.error,
        history=[TransitionResponse(**t.model_dump()) for t in task.history],
    )
