"""Every error as an RFC 9457 problem document, with a `code` for programs to act on.

Problem
 ├─ JobNotFound          404   also for another tenant's job
 ├─ IllegalTransition    409   with `current_state` and `allowed_events`
 ├─ NoImageYet           409   likewise
 ├─ ArtifactLost         410
 ├─ UnsupportedMediaType 415
 └─ Unavailable          503   with `Retry-After`
"""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from temporalio.service import RPCError, RPCStatusCode

from activities.errors import ErrorKind, WorkError
from workflows.reading import JobNotFoundError
from workflows.state_machine import JobEvent, JobState, allowed_events

logger = logging.getLogger("darkroom.api")

RETRY_AFTER_SECONDS = 2


class FieldFault(BaseModel):
    """One thing that is wrong with a request."""

    pointer: str = Field(
        description="RFC 6901 pointer, as a URI fragment, to the field in the body, or to the "
        "parameter below `#/query`, `#/path` or `#/header`",
        examples=["#/width"],
    )
    detail: str = Field(
        description="What is wrong, and what is allowed",
        examples=["Input should be less than or equal to 2048"],
    )


class ProblemDocument(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:darkroom:problem:invalid-request",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "detail": "The request has 1 fault; see `errors`.",
                    "code": "INVALID_REQUEST",
                    "errors": [
                        {
                            "pointer": "#/width",
                            "detail": "Input should be less than or equal to 2048",
                        }
                    ],
                }
            ]
        }
    )

    type: str = Field(description="A URN that names the kind of problem")
    title: str = Field(description="The HTTP status in words")
    status: int = Field(description="The HTTP status code")
    detail: str = Field(description="What happened, in words for a person")
    code: str = Field(description="What happened, for a program")
    current_state: JobState | None = Field(
        default=None, description="On a refused transition: the job's state"
    )
    allowed_events: list[JobEvent] | None = Field(
        default=None, description="On a refused transition: what the state machine accepts now"
    )
    errors: list[FieldFault] | None = Field(
        default=None, description="On bad input: every fault that was found"
    )


class Problem(HTTPException):
    """An error that a client is told in full."""

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    code: ClassVar[str] = "INTERNAL"

    def __init__(self, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(status_code=self.status, detail=detail, headers=headers)
        self.extra: dict[str, Any] = {}


class JobNotFound(Problem):
    """There is no such job, or it is somebody else's."""

    status = HTTPStatus.NOT_FOUND
    code = "JOB_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no job with this id.")


class StateProblem(Problem):
    """A request that doesn't fit the job's state."""

    status = HTTPStatus.CONFLICT

    def __init__(self, detail: str, state: JobState) -> None:
        super().__init__(detail)
        self.extra = {"current_state": state, "allowed_events": list(allowed_events(state))}


class IllegalTransition(StateProblem):
    """The state machine has no such arrow."""

    code = "ILLEGAL_TRANSITION"


class NoImageYet(StateProblem):
    """The job has no image, or not yet."""

    code = "NO_IMAGE"


class ArtifactLost(Problem):
    """The job succeeded once, and its bytes are gone."""

    status = HTTPStatus.GONE
    code = "ARTIFACT_LOST"


class MalformedJson(Problem):
    """The body is no JSON at all."""

    status = HTTPStatus.BAD_REQUEST
    code = "MALFORMED_JSON"


class UnsupportedMediaType(Problem):
    """The body says that it is something else than JSON."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    code = "UNSUPPORTED_MEDIA_TYPE"


class Unavailable(Problem):
    """Something that the API stands on is out of reach for now."""

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


class TemporalUnavailable(Unavailable):
    """Jobs can be neither started nor read."""

    code = "TEMPORAL_UNAVAILABLE"


class StoreUnavailable(Unavailable):
    """Images can't be read."""

    code = "STORE_UNAVAILABLE"


class ProblemResponse(Response):
    """A problem document."""

    media_type = "application/problem+json"

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        extra: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        document = ProblemDocument(
            type=f"urn:darkroom:problem:{code.lower().replace('_', '-')}",
            title=HTTPStatus(status).phrase,
            status=status,
            detail=detail,
            code=code,
            **(extra or {}),
        )
        # ASCII only: a lone surrogate in what the client sent can't be told in UTF-8.
        body = document.model_dump_json(exclude_none=True, ensure_ascii=True)
        super().__init__(body, status_code=status, headers=headers)


def install(app: FastAPI) -> None:
    """Answer every error of this application with a problem document."""
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(JobNotFoundError, _answer_job_not_found)
    app.add_exception_handler(RPCError, _answer_rpc_error)
    app.add_exception_handler(WorkError, _answer_work_error)
    app.add_exception_handler(Exception, _answer_fault)


def field_faults(errors: Sequence[Any]) -> list[FieldFault]:
    """Pydantic's errors as pointers and details."""
    return [FieldFault(pointer=_pointer(e["loc"]), detail=e["msg"]) for e in errors]


def _pointer(location: Sequence[str | int]) -> str:
    where, *rest = location or ("body",)
    parts = rest if where == "body" else location
    return "#" + "".join(f"/{_escape(str(part))}" for part in parts)


def _escape(part: str) -> str:
    printable = part.encode("utf-8", "replace").decode()[:100]
    return printable.replace("~", "~0").replace("/", "~1")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as registered
    code = error.code if isinstance(error, Problem) else HTTPStatus(error.status_code).name
    extra = error.extra if isinstance(error, Problem) else {}
    headers = dict(error.headers) if error.headers else None
    return ProblemResponse(error.status_code, code, error.detail, extra, headers)


async def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as registered
    faults = field_faults(error.errors())
    count = f"{len(faults)} fault{'s' if len(faults) != 1 else ''}"
    return ProblemResponse(
        422, "INVALID_REQUEST", f"The request has {count}; see `errors`.", {"errors": faults}
    )


async def _answer_job_not_found(request: Request, error: Exception) -> Response:
    return await _answer_http_error(request, JobNotFound())


async def _answer_rpc_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RPCError)  # noqa: S101 - as registered
    if error.status is RPCStatusCode.NOT_FOUND:
        return await _answer_http_error(request, JobNotFound())
    logger.warning("Temporal did not answer %s: %s", request.url.path, error)
    unavailable = TemporalUnavailable("Temporal can't be reached now; nothing was changed.")
    return await _answer_http_error(request, unavailable)


async def _answer_work_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WorkError)  # noqa: S101 - as registered
    if error.kind is not ErrorKind.STORAGE:
        return await _answer_fault(request, error)
    return await _answer_http_error(request, StoreUnavailable(error.message))


async def _answer_fault(request: Request, error: Exception) -> Response:
    """A fault of ours: the log has all of it, the client learns that it was one."""
    logger.error("fault at %s %s", request.method, request.url.path, exc_info=error)
    return ProblemResponse(500, "INTERNAL", "The service failed; the fault was logged.")
