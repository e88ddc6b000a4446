"""HEAD: whatever can be read can be looked at without its body (RFC 9110, section 9.3.2)."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_IS_HEAD = "darkroom.is_head"


def is_head(scope: Scope) -> bool:
    """Whether the answer goes out without its body."""
    return _IS_HEAD in scope


class HeadMiddleware:
    """Answers HEAD as GET is answered, headers and all, and leaves the body out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET", _IS_HEAD: True}, receive, send_without_body)
