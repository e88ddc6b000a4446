"""Reading JSON bodies strictly: what a browser form can send by itself is not taken for JSON."""

import json
from collections.abc import Callable, Coroutine
from email.message import Message
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from api.errors import MalformedJson, UnsupportedMediaType


class JsonRequest(Request):
    """A request whose JSON is parsed by the rules of this module."""

    async def json(self) -> Any:
        """Parse the body. NaN is let through: its field is named by the model that refuses it."""
        try:
            return json.loads(await self.body())
        except RecursionError as error:
            raise MalformedJson("The body is nested too deeply.") from error
        # UnicodeDecodeError, JSONDecodeError, and numbers of thousands of digits.
        except ValueError as error:
            raise MalformedJson(f"The body is not valid JSON: {_reason(error)}") from error


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}."
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {error.start}."
    return "a number has too many digits."


class JsonRoute(APIRoute):
    """A route that takes JSON, and says so to who sends anything else."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's own handler."""
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            # One request for both: a body can be received only once.
            request = JsonRequest(request.scope, request.receive)
            if self.body_field is not None and await request.body():
                _require_json(request.headers.get("content-type", ""))
            return await handle(request)

        return handle_json


def _require_json(content_type: str) -> None:
    message = Message()
    message["content-type"] = content_type or "application/octet-stream"
    subtype = message.get_content_subtype()
    if message.get_content_maintype() != "application" or not (
        subtype == "json" or subtype.endswith("+json")
    ):
        raise UnsupportedMediaType("Send JSON with the header `Content-Type: application/json`.")
