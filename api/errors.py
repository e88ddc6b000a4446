"""Answers every error with a problem document, whoever raised it."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from activities.errors import ErrorKind, WorkError
from api.problem_documents import (
    FieldFault,
    Problem,
    ProblemDocument,
    ProblemResponse,
    problem_document,
)
from api.problems import JobNotFound, MethodNotAllowed, NotFound, StoreUnavailable
from workflows.reading import JobNotFoundError

logger = logging.getLogger("darkroom.api")

# A body of nothing but unknown fields would else be answered by one many times its size.
_MAX_FAULTS = 100
_MAX_POINTER_PART = 100

# Pydantic's own words speak of Python.
_WORDS = {
    "model_attributes_type": "must be a JSON object",
    "extra_forbidden": "there is no such field",
    "string_unicode": "must not contain a lone surrogate",
}


def install(app: FastAPI) -> None:
    """Answer every error of this application with a problem document."""
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(JobNotFoundError, _answer_job_not_found)
    app.add_exception_handler(WorkError, _answer_work_error)
    app.add_exception_handler(Exception, _answer_fault)


def field_faults(errors: Sequence[Any]) -> list[FieldFault]:
    """Pydantic's errors as pointers and details."""
    return [FieldFault(pointer=_pointer(e["loc"]), detail=_detail(e)) for e in errors]


def _detail(error: Any) -> str:
    words: str = _WORDS.get(error.get("type", "")) or error["msg"]
    return words.removeprefix("Value error, ")


def _pointer(location: Sequence[str | int]) -> str:
    where, *rest = location or ("body",)
    parts = rest if where == "body" else list(location)
    # So pydantic says that the name itself is at fault, and not what stands under it.
    if len(parts) > 2 and parts[-1] == "[key]":
        parts.pop()
    return "#" + "".join(f"/{_escape(str(part))}" for part in parts)


def _escape(part: str) -> str:
    text = part[:_MAX_POINTER_PART].replace("~", "~0").replace("/", "~1")
    return quote(text, safe="!$&'()*+,;=:@", errors="replace")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as registered
    own = _own_words(request, error)
    if isinstance(own, Problem):
        return own.response()
    headers = dict(own.headers) if own.headers else None
    code = HTTPStatus(own.status_code).name
    return ProblemResponse(own.status_code, code, own.detail, headers=headers)


def _own_words(request: Request, error: HTTPException) -> HTTPException:
    """The framework's own errors about paths and methods say little."""
    if not isinstance(error, Problem) and error.status_code == NotFound.status:
        return NotFound()
    if error.status_code == MethodNotAllowed.status:
        named = (error.headers or {}).get("Allow", "").split(", ")
        return MethodNotAllowed(", ".join(_methods_at(request) or sorted(named)))
    return error


def _methods_at(request: Request) -> list[str]:
    """Every documented method of this path: the framework itself names the first route's only.

    A path that is documented as it is comes before those with a parameter in its place.
    """
    paths, asked = request.app.openapi()["paths"], request.scope["path"]
    matching = [path for path in paths if compile_path(path)[0].match(asked)]
    found = {
        method.upper()
        for path in ([asked] if asked in paths else matching)
        for method in paths[path]
    }
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


async def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as registered
    document = invalid_request(error.errors())
    return ProblemResponse(
        document.status, document.code, document.detail, {"errors": document.errors}
    )


def invalid_request(errors: Sequence[Any]) -> ProblemDocument:
    """What is told of a request with these faults, as pydantic lists them."""
    faults = field_faults(errors[:_MAX_FAULTS])
    count = f"{len(faults)} fault{'s' if len(faults) != 1 else ''}"
    detail = f"The request has {count}; see `errors`."
    return problem_document(422, "INVALID_REQUEST", detail, {"errors": faults})


async def _answer_job_not_found(request: Request, error: Exception) -> Response:
    return await _answer_http_error(request, JobNotFound())


async def _answer_work_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WorkError)  # noqa: S101 - as registered
    if error.kind is not ErrorKind.STORAGE:
        return await _answer_fault(request, error)
    return await _answer_http_error(request, StoreUnavailable(error.message))


async def _answer_fault(request: Request, error: Exception) -> Response:
    """A fault of ours: the log has all of it, the client learns that it was one."""
    # ascii(): a path may hold control characters, and must not write lines of its own.
    path = ascii(request.scope["path"])
    logger.error("fault at %s %s", request.method, path, exc_info=error)
    return ProblemResponse(500, "INTERNAL", "The service failed; the fault was logged.")
