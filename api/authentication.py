"""Who asks: found out before anything else of a request is looked at, or received."""

import re

from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from api.callers import Caller
from api.key_ring import KeyRing, KeysUnknownError
from api.limits import RequestLimit, StrangerLimit
from api.links import LinkQuery, Links
from api.problem_documents import Problem
from api.refusals import KeysUnreadable, LinkInvalid, Unauthenticated

# Whatever else is served needs a key, also what isn't there.
_OPEN = ("/healthz", "/readyz", "/openapi.json", "/docs")
_OPEN_BELOW = "/docs/"
_IMAGE = re.compile(r"/v1/jobs/([^/]+)/image")
_BEARER = re.compile(r"bearer +([!-~]+) *", re.IGNORECASE | re.ASCII)
# Longer than a key, and no work to look at.
_LONGEST_HEADER = 512
_FINAL = {(): False, ("false",): False, ("true",): True}


def needs_key(path: str) -> bool:
    """Whether the path is served only to who has a key, where there are any."""
    return path not in _OPEN and not path.startswith(_OPEN_BELOW)


class Gate:
    """Lets callers in, one by one. Whoever comes without a key pays for it by its address."""

    def __init__(self, keys: KeyRing, links: Links, requests: RequestLimit) -> None:
        self._keys = keys
        self._links = links
        self._requests = requests
        self._strangers = StrangerLimit()

    async def admit(self, scope: Scope) -> Caller:
        """Who asks. Raises a `Problem` for those who are not let in."""
        text = _bearer(scope)
        # Browsers add headers of their own, such as a proxy's password: only a key comes before.
        link = None if text else _link(scope)
        address = scope["client"][0] if scope.get("client") else ""
        await self._keys.look()
        try:
            caller = await self._caller(text, link)
        except (Unauthenticated, LinkInvalid):
            self._strangers.failed(address)
            raise
        self._requests.count(caller)
        return caller

    async def _caller(self, text: str | None, link: LinkQuery | None) -> Caller:
        if self._keys.is_open:
            return Caller()
        if not self._keys.is_known:
            raise KeysUnreadable
        if link:
            await self._links.check(link)
            return Caller(linked_job=link.job_id)
        try:
            tenant = self._keys.tenant_of(text)
        except KeysUnknownError as error:
            raise KeysUnreadable from error
        if tenant is None:
            raise Unauthenticated
        return Caller(tenant)


class AuthenticationMiddleware:
    """Notes in `request.state.caller` who asks, and answers those who may not."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or not needs_key(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._gate.admit(scope)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)


def _bearer(scope: Scope) -> str | None:
    """The token of the one `Authorization` header; two are none, for who knows which one counts."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1 or len(given[0]) > _LONGEST_HEADER:
        return None
    match = _BEARER.fullmatch(given[0].decode("latin-1"))
    return match[1] if match else None


def _link(scope: Scope) -> LinkQuery | None:
    """The signed link that this is, if it is one."""
    match = _IMAGE.fullmatch(scope["path"])
    query = QueryParams(scope["query_string"])
    if not match or "signature" not in query or scope["method"] != "GET":
        return None
    # Whoever alters a link by repeating its parts has none that was signed.
    parts = {name: tuple(query.getlist(name)) for name in ("final", "expires", "signature")}
    is_plain = len(parts["expires"]) == len(parts["signature"]) == 1 and parts["final"] in _FINAL
    return LinkQuery(
        job_id=match[1],
        final=is_plain and _FINAL[parts["final"]],
        expires=parts["expires"][0] if is_plain else "",
        signature=parts["signature"][0] if is_plain else "",
    )
