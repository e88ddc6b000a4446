"""From what a client sends to what a job is asked to do."""

import secrets

from fastapi.exceptions import RequestValidationError

from activities.models import GenerationParameters
from api.schemas import CreateJobRequest
from api.shares import Share
from workflows.messages import ImageJobInput

# Exact in JavaScript, whose numbers are doubles.
_CHOSEN_SEED_LIMIT = 2**53


def job_input(
    asked: CreateJobRequest, engines: tuple[str, ...], share: Share, tenant: str
) -> ImageJobInput:
    """The input of a tenant's job, with an engine and a seed for one that names none.

    Raises a validation error for an engine that there is not, and a priority above the share's.
    """
    engine = engines[0] if asked.engine is None else asked.engine
    if engine not in engines:
        message = f"there is no engine {engine!r}; choose from {', '.join(engines)}"
        raise RequestValidationError([{"loc": ("body", "engine"), "msg": message}])
    # One that nobody asked for is no reason to refuse a job.
    if "priority" in asked.model_fields_set:
        share.require(asked.priority)
    chosen = asked.seed if asked.seed is not None else secrets.randbelow(_CHOSEN_SEED_LIMIT)
    fields = asked.model_dump(exclude={"seed", "engine"})
    fields["priority"] = share.cap(asked.priority)
    return ImageJobInput(
        **{k: v for k, v in fields.items() if k in ImageJobInput.model_fields},
        engine=engine,
        tenant=tenant,
        fairness_weight=share.weight,
        parameters=GenerationParameters(
            **{k: v for k, v in fields.items() if k in GenerationParameters.model_fields},
            seed=chosen,
        ),
    )
