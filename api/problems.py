"""The errors that a client is told in full; those of who is not let in are in refusals.py.

Problem
 ├─ MalformedJson        400
 ├─ InvalidPageToken     400   of `api/lists.py`
 ├─ CrossSiteRequest     403
 ├─ NotFound             404   nothing is served at this path
 ├─ JobNotFound          404   also for another tenant's job
 ├─ BulkNotFound         404   likewise
 ├─ RequestTimeout       408
 ├─ IllegalTransition    409   with `current_state` and `allowed_events`
 ├─ NoImageYet           409   likewise
 ├─ NotRemovable         409   likewise
 ├─ NotRetryable         409   likewise
 ├─ NotAmendable         409   likewise
 ├─ SignalsUsedUp        409   likewise
 ├─ ArtifactLost         410
 ├─ BodyTooLarge         413
 ├─ UnsupportedMediaType 415
 ├─ KeyReused            422   an idempotency key with another body
 └─ Unavailable          503   with `Retry-After`
"""

from http import HTTPStatus

from api.problem_documents import Problem
from workflows.state_machine import JobState, allowed_events

RETRY_AFTER_SECONDS = 2


class CrossSiteRequest(Problem):
    """A page of another site tries to act with this browser."""

    status = HTTPStatus.FORBIDDEN
    code = "CROSS_SITE_REQUEST"

    def __init__(self) -> None:
        super().__init__("A page of another site can't do this.")


class NotFound(Problem):
    """Nothing is served at this path."""

    status = HTTPStatus.NOT_FOUND
    code = "NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is nothing at this path.")


class JobNotFound(Problem):
    """There is no such job, or it is somebody else's."""

    status = HTTPStatus.NOT_FOUND
    code = "JOB_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no job with this id.")


class BulkNotFound(Problem):
    """There is no such bulk operation, or it is somebody else's."""

    status = HTTPStatus.NOT_FOUND
    code = "BULK_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("There is no bulk operation with this id.")


class MethodNotAllowed(Problem):
    """The path is served, and not by this method."""

    status = HTTPStatus.METHOD_NOT_ALLOWED
    code = "METHOD_NOT_ALLOWED"

    def __init__(self, allow: str) -> None:
        super().__init__(f"This path takes {allow}.", headers={"Allow": allow})


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


class NotRemovable(StateProblem):
    """There is no image, or none with a label."""

    code = "NOT_REMOVABLE"


class NotRetryable(StateProblem):
    """The job has an image, or goes on."""

    code = "NOT_RETRYABLE"


class NotAmendable(StateProblem):
    """The job is over, or what was asked for counts only while it waits."""

    code = "NOT_AMENDABLE"


class SignalsUsedUp(StateProblem):
    """Temporal takes only so many signals for one job, in all its life."""

    code = "SIGNALS_USED_UP"


class ArtifactLost(Problem):
    """The job succeeded once, and its bytes are gone."""

    status = HTTPStatus.GONE
    code = "ARTIFACT_LOST"


class MalformedJson(Problem):
    """The body is no JSON at all."""

    status = HTTPStatus.BAD_REQUEST
    code = "MALFORMED_JSON"


class RequestTimeout(Problem):
    """The body did not come in time."""

    status = HTTPStatus.REQUEST_TIMEOUT
    code = "REQUEST_TIMEOUT"


class BodyTooLarge(Problem):
    """The body is larger than this service takes."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    code = "BODY_TOO_LARGE"


class UnsupportedMediaType(Problem):
    """The body says that it is something else than JSON."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    code = "UNSUPPORTED_MEDIA_TYPE"


class KeyReused(Problem):
    """An idempotency key came back with another request."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY
    code = "IDEMPOTENCY_KEY_REUSED"

    def __init__(self) -> None:
        super().__init__("This Idempotency-Key was used before, with another request.")


class Unavailable(Problem):
    """Something that the API stands on is out of reach for now."""

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


class TemporalUnavailable(Unavailable):
    """Jobs can be neither started nor read."""

    code = "TEMPORAL_UNAVAILABLE"

    def __init__(self) -> None:
        # A call whose answer was lost may have reached Temporal.
        super().__init__(
            "Temporal can't be reached now. A request that changes something may have been "
            "recorded all the same."
        )


class StoreUnavailable(Unavailable):
    """Images can't be read."""

    code = "STORE_UNAVAILABLE"
