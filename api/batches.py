"""Many jobs at once, each with a result of its own."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from api.errors import invalid_request
from api.jobs import Created, Jobs
from api.problem_documents import Problem, ProblemDocument, problem_document
from api.schemas import CreateJobRequest

# So that a batch leaves room for everybody else's requests.
_AT_A_TIME = 16
# Names that nobody answers for take seconds each, and most of them are waited for together.
_RECEIVERS_AT_A_TIME = 64


class _Nothing(BaseModel):
    """The body of a key that stands for a batch: its items have fingerprints of their own."""


@dataclass(frozen=True)
class ItemResult:
    """What became of one item: a job, or the problem that it would have had by itself."""

    created: Created | None = None
    problem: ProblemDocument | None = None


async def create_batch(jobs: Jobs, items: Sequence[Any], key: str | None) -> list[ItemResult]:
    """Start each job by itself; a bad item spoils none of the others.

    With an idempotency key each item has one, made of the key and the item's place.
    """
    batch = jobs.intent(key, _Nothing(), "batch") if key is not None else None
    checks, starts = asyncio.Semaphore(_RECEIVERS_AT_A_TIME), asyncio.Semaphore(_AT_A_TIME)

    async def create(number: int, item: Any) -> Created:
        asked = CreateJobRequest.model_validate(item)
        async with checks:
            await jobs.require_receiver(asked)
        async with starts:
            return await jobs.create_checked(asked, batch.item(number, asked) if batch else None)

    return await asyncio.gather(
        *(_result(number, create(number, item)) for number, item in enumerate(items))
    )


async def _result(number: int, creation: Coroutine[Any, Any, Created]) -> ItemResult:
    try:
        return ItemResult(await creation)
    except (ValidationError, RequestValidationError) as error:
        return ItemResult(problem=invalid_request(_placed(error.errors(), number)))
    except Problem as error:
        return ItemResult(
            problem=problem_document(error.status, error.code, error.detail, error.extra)
        )


def _placed(errors: Sequence[Any], number: int) -> list[Any]:
    """The faults of an item, with its place in the body."""
    return [error | {"loc": ("body", "jobs", number, *_within(error["loc"]))} for error in errors]


def _within(location: Sequence[str | int]) -> Sequence[str | int]:
    return location[1:] if location[:1] == ("body",) else location
