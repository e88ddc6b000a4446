"""Reading JSON bodies strictly: what a browser form can send by itself is not taken for JSON."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from email.message import Message
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Scope

from api.problems import BodyTooLarge, MalformedJson, RequestTimeout, UnsupportedMediaType

# Whoever sends a body drop by drop would else hold a connection for ever.
_BODY_WITHIN_SECONDS = 20


class JsonRequest(Request):
    """A request whose JSON is read by the rules of this module.

    `max_bytes` is the limit of its body, the application's own if None.
    """

    max_bytes: int | None = None

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body, up to its limit, whether or not its length was told."""
        limit, size = self.max_bytes or self.app.state.max_body_bytes, 0
        told = self.headers.get("content-length", "")
        if told.isdecimal() and int(told[:20]) > limit:
            raise BodyTooLarge(f"The body is larger than {limit} bytes.")
        async for chunk in super().stream():
            size += len(chunk)
            if size > limit:
                raise BodyTooLarge(f"The body is larger than {limit} bytes.")
            yield chunk

    async def json(self) -> Any:
        """Parse the body. NaN is let through: its field is named by the model that refuses it."""
        try:
            # RFC 8259 asks for UTF-8, and lets a parser ignore a byte order mark.
            text = (await self.body()).decode("utf-8-sig")
            return json.loads(text, object_pairs_hook=_unambiguous)
        except RecursionError as error:
            raise MalformedJson("The body is nested too deeply.") from error
        # UnicodeDecodeError, JSONDecodeError, and numbers of thousands of digits.
        except ValueError as error:
            raise MalformedJson(f"The body is not valid JSON: {_reason(error)}") from error


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers of an object with a repeated name need not agree on its value."""
    names = dict(pairs)
    if len(names) < len(pairs):
        raise MalformedJson("The body has an object with the same name twice.")
    return names


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}."
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {error.start}."
    return "a number has too many digits."


class JsonRoute(APIRoute):
    """A route that takes JSON, and says so to who sends anything else."""

    max_bytes: int | None = None
    # Whether whatever is sent is read as JSON, as front ends expect that send no content type.
    takes_any_type = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's own handler."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            # One request for both: a body can be received only once.
            scope = _as_json(request.scope) if self.takes_any_type else request.scope
            request = JsonRequest(scope, request.receive)
            request.max_bytes = self.max_bytes
            if self.body_field is not None and await _body(request):
                _require_json(request)
            return await handle(request)

        return handle_json


def _as_json(scope: Scope) -> Scope:
    """The request as if its body had been sent as JSON; FastAPI itself looks at the header."""
    others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
    return {**scope, "headers": [*others, (b"content-type", b"application/json")]}


async def _body(request: JsonRequest) -> bytes:
    try:
        async with asyncio.timeout(_BODY_WITHIN_SECONDS):
            return await request.body()
    except TimeoutError as error:
        raise RequestTimeout("The body did not arrive in time.") from error


def _require_json(request: JsonRequest) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType(
            "Send the body as it is, without a content encoding.",
            headers={"Accept-Encoding": "identity"},
        )
    message = Message()
    message["content-type"] = request.headers.get("content-type") or "application/octet-stream"
    subtype = message.get_content_subtype()
    is_json = message.get_content_maintype() == "application" and (
        subtype == "json" or subtype.endswith("+json")
    )
    if not is_json or message.get_content_charset("utf-8") not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(
            "Send JSON in UTF-8 with the header `Content-Type: application/json`."
        )
