"""What the routes ask for: starting and reading jobs, for one caller."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import uuid4

from pydantic import BaseModel
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from activities.artifacts import ArtifactStore
from activities.refs import ArtifactRef
from api.callers import Caller
from api.idempotency import Intent
from api.images import read_image
from api.job_inputs import job_input
from api.outage import ANSWER_WITHIN, answered
from api.problems import (
    JobNotFound,
    KeyReused,
    TemporalUnavailable,
)
from api.room import Room
from api.schemas import CreateJobRequest
from api.shares import Share, Shares
from workflows.chain import may_have_successor
from workflows.hearing import Standing
from workflows.job_record import JobRecord
from workflows.messages import ImageJobInput, JobView
from workflows.names import job_id_of, workflow_id_for
from workflows.reading import JobNotFoundError, JobReader
from workflows.search_attributes import lacks_search_attributes, register_search_attributes
from workflows.submission import start_job

_MOST_SUCCEEDED = 10_000


class ReceiverCheck(Protocol):
    """What a submit has to do with those who are to be told of jobs."""

    async def require_allowed(self, url: str, field: str) -> None:
        """Raise a validation error that names the field, unless messages may go there."""

    async def addressed(self, request: ImageJobInput, base_url: str) -> ImageJobInput:
        """The request with what its receivers need."""
        ...


@dataclass(frozen=True)
class Created:
    """A job that was started: now, or earlier by the same request (`is_replay`)."""

    view: JobView
    is_replay: bool = False


class Jobs:
    """The jobs of one caller: those of the default tenant, until another one asks."""

    def __init__(
        self,
        client: Client,
        store: ArtifactStore,
        reader: JobReader,
        engines: tuple[str, ...],
        waiting: Room,
        shares: Shares,
        receivers: ReceiverCheck,
    ) -> None:
        self._client = client
        self._store = store
        self._engines = engines
        self._waiting = waiting
        self._receivers = receivers
        self._shares = shares
        self._caller = Caller()
        self._base_url = ""
        self._reader = reader
        # Those that were last seen to have succeeded: final, so that it can be no other now.
        self._succeeded: OrderedDict[str, None] = OrderedDict()

    def of(self, caller: Caller, base_url: str) -> "Jobs":
        """The jobs of this caller, who reached the API at this address."""
        jobs = copy(self)
        jobs._caller = caller
        jobs._base_url = base_url
        return jobs

    @property
    def caller(self) -> Caller:
        """Who asks here."""
        return self._caller

    @property
    def share(self) -> Share:
        """What of the workers the caller's jobs may have."""
        return self._shares.of(self._caller.tenant)

    def intent(self, key: str, asked: BaseModel, about: str = "") -> Intent:
        """What a request with an idempotency key of this tenant's means to do."""
        return Intent.of(key, self._caller.tenant, asked, about)

    async def create(self, asked: CreateJobRequest, intent: Intent | None = None) -> Created:
        """Start a job; once this returns it can't be lost."""
        await self.require_receiver(asked)
        return await self.create_checked(asked, intent)

    async def require_receiver(self, asked: CreateJobRequest) -> None:
        """Raise a validation error if callbacks must not go where they are wanted.

        Name servers that hang make it take some seconds.
        """
        if asked.callback_url is not None:
            await self._receivers.require_allowed(asked.callback_url, "callback_url")

    async def create_checked(
        self, asked: CreateJobRequest, intent: Intent | None = None
    ) -> Created:
        """Start a job whose receiver was found to be allowed."""
        request = job_input(asked, self._engines, self.share, self._caller.tenant)
        return await self.submit(request, intent)

    async def submit(self, request: ImageJobInput, intent: Intent | None) -> Created:
        """Start a job, or give the one that the same intent has started."""
        if intent is None:
            job_id = uuid4().hex
        else:
            job_id = intent.job_id
            request = request.model_copy(update={"fingerprint": intent.fingerprint})
            # Before the start: by the time that Temporal forgets a job, the archive knows it.
            if archived := await self._reader.read_archived(job_id):
                return _replayed(archived, request)
        try:
            async with answered():
                await self.start(job_id, request)
        except WorkflowAlreadyStartedError:
            return _replayed(await self.read(job_id), request)
        return Created(await self._read_started(job_id, request))

    async def _read_started(self, job_id: str, request: ImageJobInput) -> JobView:
        try:
            async with answered():
                return await self._reader.read(job_id)
        except TemporalUnavailable:
            # The job has started: whoever asked must learn its id.
            return JobRecord(job_id, datetime.now(UTC), request).view()

    async def start(
        self,
        job_id: str,
        request: ImageJobInput,
        policy: WorkflowIDReusePolicy = WorkflowIDReusePolicy.REJECT_DUPLICATE,
    ) -> None:
        """Start a job, if its tenant may have one more; see `start_job`."""
        addressed = await self._receivers.addressed(request, self._base_url)

        async def start() -> None:
            await start_job(self._client, job_id, addressed, id_reuse_policy=policy)

        async with self._waiting.for_one(request.tenant):
            try:
                await start()
            except RPCError as error:
                if not lacks_search_attributes(error):
                    raise
                # The server's database is new, and younger than this process.
                await register_search_attributes(self._client)
                await _start_where_just_registered(start)

    async def read(self, job_id: str) -> JobView:
        """The job, or `JobNotFound`, which another tenant's job is too."""
        require_id(job_id)
        async with answered():
            view = await self._reader.read(job_id)
        self.require_own(view)
        self._note_success(view)
        return view

    def may_have_successor(self, job_id: str) -> bool:
        """Whether it was seen here that there can be one; see `workflows.chain`."""
        return job_id in self._succeeded

    def _note_success(self, view: JobView) -> None:
        if may_have_successor(view):
            self._succeeded[view.id] = None
            self._succeeded.move_to_end(view.id)
            if len(self._succeeded) > _MOST_SUCCEEDED:
                self._succeeded.popitem(last=False)

    async def read_standing(self, job_id: str) -> Standing:
        """The job, and what it was asked so far; or `JobNotFound`."""
        require_id(job_id)
        async with answered():
            standing = await self._reader.read_standing(job_id)
        self.require_own(standing.view)
        return standing

    def require_own(self, view: JobView) -> None:
        """Raise `JobNotFound` for another tenant's job."""
        if not self._caller.may_see(view):
            raise JobNotFound

    def handle(self, job_id: str) -> WorkflowHandle[object, object]:
        """The workflow of a job that was read."""
        return self._reader.handle(job_id)

    async def read_after_change(self, known: JobView, limit: timedelta) -> JobView:
        """The job once its state has changed, or after `limit`."""
        async with answered(limit + ANSWER_WITHIN):
            return await self._reader.read_after_change(known.id, known, limit)

    async def read_if_any(self, job_id: str) -> JobView | None:
        """The job, if there is one."""
        try:
            return await self.read(job_id)
        except (JobNotFound, JobNotFoundError):
            return None

    async def image(self, view: JobView) -> tuple[ArtifactRef, bytes]:
        """The finished image of a job that was read; see `read_image`."""
        return await read_image(self._store, view)


def _replayed(view: JobView, request: ImageJobInput) -> Created:
    """The job that a key has started, for a request that means the same."""
    if view.request is None or view.request.fingerprint != request.fingerprint:
        raise KeyReused
    return Created(view, is_replay=True)


def require_id(job_id: str) -> None:
    """Raise `JobNotFound` for what can be no job's id."""
    if job_id_of(workflow_id_for(job_id)) is None:
        raise JobNotFound


async def _start_where_just_registered(start: Callable[[], Awaitable[None]]) -> None:
    try:
        await start()
    except RPCError as error:
        if not lacks_search_attributes(error):
            raise
        raise TemporalUnavailable from error
