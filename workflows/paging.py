"""Pages of a list, newest first: where one ends, told in a token, and how far the next reaches.

Temporal lists running executions first and the closed ones in the order of their ends, so that a
job which ends moves. Pages are cut by start time instead, which never changes: a page is all jobs
of a span of time that holds enough of them.
"""

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from pydantic import Field, ValidationError

from activities.values import Model, UtcTime

_FIRST_SPAN = timedelta(minutes=1)
_GROWTH = 60
# Beyond this nothing is counted any more, and everything is read.
_LONGEST_SPAN = timedelta(days=200)
_SHORTEST_SPAN = timedelta(milliseconds=1)

_DIGEST_BYTES = 16
_LONGEST_TOKEN = 1000

# How many jobs there are between a time and where the page begins.
CountSince = Callable[[datetime], Awaitable[int]]
Key = tuple[datetime, str]


class InvalidTokenError(ValueError):
    """A token that is no token, or one of another list."""


class Cursor(Model):
    """Where a page ended: the next begins after the job of this start time and run id.

    `asked_at`: when the first page was asked for; `span_seconds`: how long a page was.
    """

    started_at: UtcTime
    run_id: str = Field(max_length=100)
    asked_at: UtcTime
    span_seconds: float = Field(ge=0, allow_inf_nan=False)

    @property
    def key(self) -> Key:
        """Its place in the order: greater keys come first."""
        return self.started_at, self.run_id

    def token(self, scope: str) -> str:
        """The cursor as a client carries it, for the list that `scope` tells apart from others."""
        body = self.model_dump_json().encode()
        return base64.urlsafe_b64encode(_digest(body, scope) + body).decode()


def read_token(token: str, scope: str) -> Cursor:
    """The inverse of `Cursor.token`, or `InvalidTokenError`.

    The digest tells a token that was altered or is of another list, and needs no secret: whoever
    makes one up gets another page of a list that they may read anyway.
    """
    if len(token) > _LONGEST_TOKEN:
        raise InvalidTokenError
    try:
        text = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise InvalidTokenError from error
    digest, body = text[:_DIGEST_BYTES], text[_DIGEST_BYTES:]
    if digest != _digest(body, scope) or base64.urlsafe_b64encode(text).decode() != token:
        raise InvalidTokenError
    try:
        return Cursor.model_validate_json(body)
    except ValidationError as error:
        raise InvalidTokenError from error


def _digest(body: bytes, scope: str) -> bytes:
    return hashlib.sha256(body + scope.encode()).digest()[:_DIGEST_BYTES]


async def reach(
    count: CountSince, until: datetime, wanted: int, span: timedelta
) -> datetime | None:
    """Since when there are at least `wanted` jobs until then, and not many more; None: since ever.

    `span` is where to look first.
    """
    few, known, span = until, 0, max(span, _SHORTEST_SPAN)
    while span < _LONGEST_SPAN:
        since = until - span
        found = await count(since)
        if found >= wanted:
            return await narrow(count, (few, known), (since, found), wanted)
        few, known, span = since, found, span * _GROWTH
    return None


async def narrow(
    count: CountSince, few: tuple[datetime, int], enough: tuple[datetime, int], wanted: int
) -> datetime:
    """A time between two, of which one counts too few and the other may count too many."""
    is_halved = False
    while enough[1] > 3 * wanted and abs(few[0] - enough[0]) > _SHORTEST_SPAN:
        # As if they came evenly; every second time by halves, because they may not.
        share = 0.5 if is_halved else (1.5 * wanted - few[1]) / (enough[1] - few[1])
        at = few[0] + (enough[0] - few[0]) * min(max(share, 0.02), 0.98)
        found, is_halved = await count(at), not is_halved
        if found >= wanted:
            enough = (at, found)
        else:
            few = (at, found)
    return enough[0]


def first_span() -> timedelta:
    """Where to look first when nothing is known."""
    return _FIRST_SPAN
