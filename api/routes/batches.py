"""`/v1/batches`: many jobs at once."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from api.addresses import Addresses
from api.batches import ItemResult, create_batch
from api.dependencies import AddressesDependency, ChainsDependency, JobsDependency
from api.idempotency import IdempotencyKey
from api.job_schemas import JobResponse
from api.json_body import JsonRoute
from api.openapi import FAULT, UNAVAILABLE
from api.presenter import present_job
from api.problem_documents import ProblemDocument
from api.routes.documented import BODY

MAX_JOBS = 500


class BatchRoute(JsonRoute):
    """Takes the bodies of many jobs."""

    max_bytes = 16 * 1024 * 1024


# Each is looked at by itself, so that one which is no job at all spoils none of the others.
_Item = Annotated[Any, WithJsonSchema({"$ref": "#/components/schemas/CreateJobRequest"})]


class CreateBatchRequest(BaseModel):
    """Up to 500 jobs."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [{"jobs": [{"prompt": "a lake"}, {"prompt": "a lake at night"}]}]
        },
    )

    jobs: list[_Item] = Field(
        min_length=1, max_length=MAX_JOBS, description="What `POST /v1/jobs` takes, each"
    )


class BatchItemResponse(BaseModel):
    """What became of one item."""

    index: int = Field(description="Its place in the request, from 0")
    status: int = Field(description="The HTTP status that it would have had by itself")
    job: JobResponse | None = Field(description="The job, if it was accepted")
    problem: ProblemDocument | None = Field(description="Why it was not")


class BatchResponse(BaseModel):
    """A result for each item, in the order of the request."""

    results: list[BatchItemResponse] = Field(description="One for each item")


router = APIRouter(
    prefix="/v1/batches", tags=["jobs"], route_class=BatchRoute, responses={500: FAULT}
)


@router.post(
    "",
    status_code=202,
    response_model=BatchResponse,
    summary="Start many jobs",
    responses={
        202: {"description": "Every item has a result; those with a job can't be lost any more"},
        **BODY,
        503: UNAVAILABLE,
    },
)
async def create_jobs(
    asked: CreateBatchRequest,
    jobs: JobsDependency,
    chains: ChainsDependency,
    addresses: AddressesDependency,
    idempotency_key: IdempotencyKey = None,
) -> BatchResponse:
    """Start up to 500 jobs; one that is refused leaves the others as they are.

    With an `Idempotency-Key` each item is started once, however often the batch is sent.
    """
    results = await create_batch(jobs, asked.jobs, idempotency_key)
    return BatchResponse(
        results=[
            await _present(index, result, chains, addresses) for index, result in enumerate(results)
        ]
    )


async def _present(
    index: int, result: ItemResult, chains: ChainsDependency, addresses: Addresses
) -> BatchItemResponse:
    if result.created is None:
        status = result.problem.status if result.problem else 500
        return BatchItemResponse(index=index, status=status, job=None, problem=result.problem)
    view = await chains.placed(result.created.view)
    job = present_job(view, addresses)
    return BatchItemResponse(index=index, status=202, job=job, problem=None)
