"""`/v1/jobs/{id}/events`: a job's life as it happens, as server-sent events."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from api.dependencies import ListeningDependency
from api.json_body import JsonRoute
from api.listening import LastEventId
from api.openapi import FAULT, UNAVAILABLE
from api.routes.documented import INVALID, NOT_FOUND, JobId

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JsonRoute, responses={500: FAULT})

# Whatever an integer is to Python, "+1" and "1_0" are no ids of ours.
_ID = r"^[0-9]{0,9}$"

_STREAM = """\
Server-sent events. A `transition` has the transition's sequence as its `id`, and as its `data` a
`TransitionEvent`; `progress` has no id, and as its `data` a `Progress`. The stream ends after the
final state's transition."""


async def _last_event_id(
    sent: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            pattern=_ID,
            description="The id of the last event that the client got: those after it follow",
        ),
    ] = None,
    last_event_id: Annotated[
        str | None,
        Query(pattern=_ID, description="The same, for clients that can't set the header"),
    ] = None,
) -> LastEventId:
    """Where the client was. A browser that connects again keeps the address and sends the header.

    Empty is the same as absent: so are the ids of events before the first that has one.
    """
    if sent:
        return LastEventId(int(sent), ("header", "Last-Event-ID"))
    return LastEventId(int(last_event_id or 0), ("query", "last_event_id"))


@router.get(
    "/{job_id}/events",
    summary="Listen to a job",
    response_class=Response,
    responses={
        200: {
            "description": _STREAM,
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        204: {"description": "The job is final, and the client has its last event: it is to stop"},
        404: NOT_FOUND,
        422: INVALID,
        503: UNAVAILABLE,
    },
)
async def listen_to_job(
    job_id: JobId,
    listening: ListeningDependency,
    last_event_id: Annotated[LastEventId, Depends(_last_event_id)],
    final: Annotated[
        bool,
        Query(
            description="Go on with the job that follows in the chain; its ids go on, too: each is "
            "its transition's sequence plus the last id of the job before"
        ),
    ] = False,
) -> Response:
    """Listen to a job: its transitions so far, each exactly once, and then what happens, live."""
    return await listening.answer(job_id, last_event_id, is_chain=final)
