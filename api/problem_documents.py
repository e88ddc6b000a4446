"""RFC 9457 problem details: how any error is told."""

from http import HTTPStatus
from typing import Any, ClassVar

from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from workflows.state_machine import JobEvent, JobState

# Python's own words for these differ from version to version; RFC 9110's do not.
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}


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
                    "errors": [{"pointer": "#/width", "detail": "Input should be less than 2049"}],
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
        default=None, description="On bad input: every fault that was found, up to a hundred"
    )


def problem_document(
    status: int, code: str, detail: str, extra: dict[str, Any] | None = None
) -> ProblemDocument:
    """What is told of a problem."""
    return ProblemDocument(
        type=f"urn:darkroom:problem:{code.lower().replace('_', '-')}",
        title=_TITLES.get(status) or HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        **(extra or {}),
    )


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
        document = problem_document(status, code, detail, extra)
        super().__init__(
            document.model_dump_json(exclude_none=True), status_code=status, headers=headers
        )


class Problem(HTTPException):
    """An error that a client is told in full."""

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    code: ClassVar[str] = "INTERNAL"

    def __init__(self, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(status_code=self.status, detail=detail, headers=headers)
        self.extra: dict[str, Any] = {}

    def response(self) -> ProblemResponse:
        """The answer."""
        headers = dict(self.headers) if self.headers else None
        return ProblemResponse(self.status_code, self.code, self.detail, self.extra, headers)
