"""The errors of those who are not let in, or not now.

Problem
 ├─ Unauthenticated      401   with `WWW-Authenticate`, and alike for every kind of wrong key
 ├─ LinkInvalid          403
 ├─ LinkExpired          403
 ├─ RateLimited          429   with `Retry-After`
 ├─ TooManyJobs          429   likewise
 ├─ TooManyBulks         429   likewise
 └─ StoreUnavailable
     ├─ KeysUnreadable   503   likewise
     └─ LinksUnreadable  503   likewise
"""

import math
from http import HTTPStatus

from api.problem_documents import Problem
from api.problems import StoreUnavailable

# What waits or is open doesn't become less within a second or two.
_ROOM_AFTER_SECONDS = 5


class Unauthenticated(Problem):
    """There is no key, or none that counts."""

    status = HTTPStatus.UNAUTHORIZED
    code = "UNAUTHENTICATED"

    def __init__(self) -> None:
        super().__init__(
            "Send an API key that is valid: `Authorization: Bearer <key>`.",
            headers={"WWW-Authenticate": 'Bearer realm="darkroom"'},
        )


class LinkInvalid(Problem):
    """The link was altered, or is not of this service."""

    status = HTTPStatus.FORBIDDEN
    code = "LINK_INVALID"

    def __init__(self) -> None:
        super().__init__("The link is not one that this service has given out.")


class LinkExpired(Problem):
    """The link was good once."""

    status = HTTPStatus.FORBIDDEN
    code = "LINK_EXPIRED"

    def __init__(self) -> None:
        super().__init__("The link has expired; read the job again for a new one.")


class RateLimited(Problem):
    """Too many requests in too short a time."""

    status = HTTPStatus.TOO_MANY_REQUESTS
    code = "RATE_LIMITED"

    def __init__(self, detail: str, wait_seconds: float) -> None:
        super().__init__(detail, headers={"Retry-After": str(max(1, math.ceil(wait_seconds)))})


class TooManyJobs(Problem):
    """The tenant has as many jobs waiting as it may."""

    status = HTTPStatus.TOO_MANY_REQUESTS
    code = "TOO_MANY_JOBS"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} jobs wait already, and no more are allowed at a time.",
            headers={"Retry-After": str(_ROOM_AFTER_SECONDS)},
        )


class TooManyBulks(Problem):
    """The tenant has as many bulk operations open as it may."""

    status = HTTPStatus.TOO_MANY_REQUESTS
    code = "TOO_MANY_BULKS"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} bulk operations are not over yet, and no more are allowed at a time.",
            headers={"Retry-After": str(_ROOM_AFTER_SECONDS)},
        )


class KeysUnreadable(StoreUnavailable):
    """Nobody can say whether the key counts."""

    def __init__(self) -> None:
        super().__init__("The API keys can't be read now.")


class LinksUnreadable(StoreUnavailable):
    """Nobody can say whether the link is ours."""

    def __init__(self) -> None:
        super().__init__("The link can't be checked now.")
