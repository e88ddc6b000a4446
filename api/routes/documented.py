"""What the routes below `/v1/jobs` have in common in the OpenAPI document."""

from typing import Annotated, Any

from fastapi import Path

from api.job_schemas import JobResponse
from api.openapi import RETRY_AFTER, UNAVAILABLE, problem

# What a client that polls had better wait between two looks.
POLL_SECONDS = 1

JobId = Annotated[
    str, Path(description="The job's id", examples=["3f0c9a52b1d84e0f8d4c7a6b5e2f1a90"])
]

LINK_PARAMETERS = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": {"type": "string"},
    }
    for name, description in (
        ("expires", "Of a signed link: until when it is good, in Unix time"),
        ("signature", "Of a signed link: that it was given out here, and as it is"),
    )
]
ETAG = {"description": "Of exactly this answer", "schema": {"type": "string"}}
NOT_FOUND = problem("There is no job with this id")
INVALID = problem("The request has faults; `errors` names each of them")
BODY: dict[int | str, dict[str, Any]] = {
    400: problem("The body is not valid JSON"),
    408: problem("The body did not arrive in time"),
    413: problem("The body is larger than `DARKROOM_MAX_BODY_BYTES`"),
    415: problem("The body is not sent as JSON"),
    422: INVALID,
}
CONTROL: dict[int | str, dict[str, Any]] = {
    **BODY,
    200: {"description": "The state is reached, or was already"},
    202: {
        "description": "The wish is on record and will be carried out, whatever dies meanwhile; "
        "`pending_request` shows it",
        "model": JobResponse,
        "headers": {"Retry-After": RETRY_AFTER},
    },
    404: NOT_FOUND,
    503: UNAVAILABLE,
}
AMEND: dict[int | str, dict[str, Any]] = {
    **CONTROL,
    200: {"description": "The job is as it was asked to be; `amendments` says since when"},
    202: CONTROL[202]
    | {"description": "The change is on record and will be made, whatever dies meanwhile"},
    409: problem("The job is over, or only a waiting one can be changed like this"),
}
REFUSED = problem("The job's state doesn't allow it; see `current_state` and `allowed_events`")
ACCEPTED_HEADERS = {
    "Location": {"description": "The job", "schema": {"type": "string"}},
    "Retry-After": RETRY_AFTER,
    "Idempotency-Replayed": {
        "description": "`true` where an earlier request with this key has started the job",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
