"""HEAD: whatever can be read can be looked at without its body (RFC 9110, section 9.3.2)."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ASKED_FOR_HEAD = "darkroom.head"


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

        scope = {**scope, "method": "GET", _ASKED_FOR_HEAD: True}
        await self._app(scope, receive, send_without_body)


def is_head(scope: Scope) -> bool:
    """Whether nobody will get the body: one that has no end need not be begun."""
    return bool(scope.get(_ASKED_FOR_HEAD))
