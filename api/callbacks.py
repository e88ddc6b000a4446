"""Callbacks, for one caller: what became of a job's, sending them again, endpoint and secret."""

from collections.abc import Sequence
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError

from activities.callbacks.book import CallbackBook, RotatedTooOftenError
from activities.callbacks.checking import SubmitCheck
from activities.callbacks.errors import CallbackRefusedError
from activities.callbacks.tenant_files import Endpoint
from activities.errors import WorkError
from api.callback_schemas import SetCallbackEndpointRequest
from api.jobs import Jobs
from api.outage import answered
from api.problem_documents import Problem
from api.problems import StateProblem
from workflows.callbacks import Message, all_messages, receivers
from workflows.deliveries import AskedTooOftenError, Deliveries, Delivery
from workflows.messages import ImageJobInput, JobView

# What is longer is no address that a receiver could use.
_LONGEST_BASE = 500


class CallbackNotFound(Problem):
    """The job has no such callback."""

    status = HTTPStatus.NOT_FOUND
    code = "CALLBACK_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("The job has no callback with this id.")


class RedeliveredTooOften(Problem):
    """The delivery has heard so many wishes that it takes no more for now."""

    status = HTTPStatus.CONFLICT
    code = "REDELIVERED_TOO_OFTEN"

    def __init__(self) -> None:
        super().__init__("It was asked for too often while it was sent: wait for its next attempt.")


class NoCallbackYet(StateProblem):
    """Nothing has happened that anybody is to be told of."""

    code = "NO_CALLBACK"


class NoEndpoint(Problem):
    """The tenant has no endpoint."""

    status = HTTPStatus.NOT_FOUND
    code = "NO_CALLBACK_ENDPOINT"

    def __init__(self) -> None:
        super().__init__("There is no callback endpoint.")


class RotatedTooOften(Problem):
    """Each old secret signs for a day, and a message has room for so many signatures."""

    status = HTTPStatus.CONFLICT
    code = "ROTATED_TOO_OFTEN"

    def __init__(self) -> None:
        super().__init__(
            "Each of the old secrets signs for another day, and there are too many by now."
        )


class ReceiverDesk:
    """What a submit has to do with receivers, for all tenants."""

    def __init__(self, check: SubmitCheck, book: CallbackBook) -> None:
        self._check = check
        self._book = book

    async def require_allowed(self, url: str, field: str) -> None:
        """Raise a validation error that names the field, unless messages may go there."""
        try:
            await self._check.check_at_submit(url)
        except CallbackRefusedError as error:
            fault = {"loc": ("body", field), "msg": str(error)}
            raise RequestValidationError([fault]) from error

    async def addressed(self, request: ImageJobInput, base_url: str) -> ImageJobInput:
        """The request with what its receivers need: the tenant's endpoint, and where links begin.

        An endpoint that can't be looked for now may be there: whoever sends to it will see.
        """
        try:
            endpoint = await self._book.known_endpoint(request.tenant)
            events = endpoint.events if endpoint else None
        except WorkError:
            events = "final"
        request = request.model_copy(update={"endpoint_events": events, "links_base": ""})
        if not receivers(request) or len(base_url) > _LONGEST_BASE:
            return request
        return request.model_copy(update={"links_base": base_url})


class JobCallbacks:
    """The callbacks of one caller's jobs."""

    def __init__(self, jobs: Jobs, deliveries: Deliveries) -> None:
        self._jobs = jobs
        self._deliveries = deliveries

    async def of_job(self, job_id: str) -> list[Delivery]:
        """All of a job so far."""
        return await self._read(await self._jobs.read(job_id))

    async def send_final_again(self, job_id: str) -> list[Delivery]:
        """Send what tells of the final state once more, to all its receivers."""
        view = await self._jobs.read(job_id)
        last = view.transitions[-1].sequence if view.transitions else 0
        messages = [message for message in all_messages(view) if message.sequence == last]
        if not view.state.is_terminal or not messages:
            raise NoCallbackYet(_why_none(view), view.state)
        return await self._send(view, messages)

    async def send_again(self, job_id: str, callback_id: str) -> list[Delivery]:
        """Send one once more, to all its receivers."""
        view = await self._jobs.read(job_id)
        messages = [message for message in all_messages(view) if message.id == callback_id]
        if not messages:
            raise CallbackNotFound
        return await self._send(view, messages)

    async def _send(self, view: JobView, messages: Sequence[Message]) -> list[Delivery]:
        for message in messages:
            try:
                async with answered():
                    await self._deliveries.send_again(message)
            except AskedTooOftenError as error:
                raise RedeliveredTooOften from error
        sent = {message.workflow_id for message in messages}
        return [one for one in await self._read(view) if one.message.workflow_id in sent]

    async def _read(self, view: JobView) -> list[Delivery]:
        async with answered():
            return await self._deliveries.of_job(view)


class TenantCallbacks:
    """The endpoint and the secret of one tenant."""

    def __init__(self, tenant: str, book: CallbackBook, desk: ReceiverDesk) -> None:
        self._tenant = tenant
        self._book = book
        self._desk = desk

    async def endpoint(self) -> Endpoint:
        """Raises `NoEndpoint`."""
        endpoint = await self._book.endpoint(self._tenant)
        if endpoint is None:
            raise NoEndpoint
        return endpoint

    async def set_endpoint(self, asked: SetCallbackEndpointRequest) -> Endpoint:
        """Set or replace it, if messages may go there."""
        await self._desk.require_allowed(asked.url, "url")
        endpoint = Endpoint(url=asked.url, events=asked.events)
        await self._book.set_endpoint(self._tenant, endpoint)
        return endpoint

    async def remove_endpoint(self) -> None:
        """Remove it, if there is one."""
        await self._book.remove_endpoint(self._tenant)

    async def secret(self) -> str:
        """The one to verify with; it is made when it is first asked for."""
        return (await self._book.secrets(self._tenant))[0]

    async def rotate_secret(self) -> str:
        """Another one; raises `RotatedTooOften`."""
        try:
            return await self._book.rotate(self._tenant)
        except RotatedTooOftenError as error:
            raise RotatedTooOften from error


def _why_none(view: JobView) -> str:
    if not receivers(view.request):
        return "The job has no callback_url, and its tenant had no endpoint when it was started."
    return f"The job is {view.state}: its final state can't be told yet."
