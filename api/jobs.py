"""What the routes ask for: starting, reading and controlling jobs, for one tenant."""

import asyncio
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from fastapi.exceptions import RequestValidationError
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.artifacts import ArtifactLostError, ArtifactStore, get_image
from activities.models import ArtifactRef, GenerationParameters
from api.outage import ANSWER_WITHIN, answered
from api.presenter import DEFAULT_TENANT
from api.problems import (
    ArtifactLost,
    IllegalTransition,
    JobNotFound,
    NoImageYet,
    StoreUnavailable,
    TemporalUnavailable,
)
from api.schemas import CreateJobRequest
from workflows.job_record import JobRecord
from workflows.messages import (
    SIGNAL_CANCEL,
    SIGNAL_PAUSE,
    SIGNAL_RESUME,
    WATCHDOG,
    ControlNote,
    ImageJobInput,
    JobView,
    PendingRequest,
    job_id_of,
    workflow_id_for,
)
from workflows.reading import JobReader
from workflows.search_attributes import register_search_attributes
from workflows.state_machine import JobEvent, JobState
from workflows.submission import start_job

# How long a control call waits for its effect before it answers that the wish is on record.
CONTROL_WAIT = timedelta(seconds=2)

_STORE_SECONDS = 10.0

# Exact in JavaScript, whose numbers are doubles.
_CHOSEN_SEED_LIMIT = 2**53


class Jobs:
    """The jobs of one tenant."""

    def __init__(
        self,
        client: Client,
        store: ArtifactStore,
        engines: tuple[str, ...],
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        self._client = client
        self._store = store
        self._engines = engines
        self._tenant = tenant
        self._reader = JobReader(client, store)

    @property
    def _source(self) -> str:
        return f"api:{self._tenant}"

    async def create(self, asked: CreateJobRequest) -> JobView:
        """Start a job; once this returns it can't be lost."""
        job_id, request = uuid4().hex, self._job_input(asked)
        async with answered():
            await self._start(job_id, request)
        try:
            async with answered():
                return await self._reader.read(job_id)
        except TemporalUnavailable:
            # The job has started: whoever asked must learn its id.
            return JobRecord(job_id, datetime.now(UTC), request).view()

    async def _start(self, job_id: str, request: ImageJobInput) -> None:
        try:
            await start_job(self._client, job_id, request)
        except RPCError as error:
            if not _lacks_search_attributes(error):
                raise
            # The server's database is new, and younger than this process.
            await register_search_attributes(self._client)
            await self._start_where_just_registered(job_id, request)

    async def _start_where_just_registered(self, job_id: str, request: ImageJobInput) -> None:
        try:
            await start_job(self._client, job_id, request)
        except RPCError as error:
            if not _lacks_search_attributes(error):
                raise
            raise TemporalUnavailable from error

    def _job_input(self, asked: CreateJobRequest) -> ImageJobInput:
        engine = self._engines[0] if asked.engine is None else asked.engine
        if engine not in self._engines:
            message = f"there is no engine {engine!r}; choose from {', '.join(self._engines)}"
            raise RequestValidationError([{"loc": ("body", "engine"), "msg": message}])
        chosen = asked.seed if asked.seed is not None else secrets.randbelow(_CHOSEN_SEED_LIMIT)
        fields = asked.model_dump(exclude={"seed", "engine"})
        return ImageJobInput(
            **{k: v for k, v in fields.items() if k in ImageJobInput.model_fields},
            engine=engine,
            tenant=self._tenant,
            parameters=GenerationParameters(
                **{k: v for k, v in fields.items() if k in GenerationParameters.model_fields},
                seed=chosen,
            ),
        )

    async def read(self, job_id: str) -> JobView:
        """The job, or `JobNotFound`, which another tenant's job is too."""
        if job_id_of(workflow_id_for(job_id)) is None:
            raise JobNotFound
        async with answered():
            view = await self._reader.read(job_id)
        if (view.request.tenant if view.request else DEFAULT_TENANT) != self._tenant:
            raise JobNotFound
        return view

    async def read_after_change(self, known: JobView, limit: timedelta) -> JobView:
        """The job once its state has changed, or after `limit`."""
        async with answered(limit + ANSWER_WITHIN):
            return await self._reader.read_after_change(known.id, known, limit)

    async def image(self, job_id: str) -> tuple[ArtifactRef, bytes]:
        """The finished image's bytes, checked against the recorded hash."""
        view = await self.read(job_id)
        if view.status.result is None:
            raise NoImageYet(f"The job is {view.state}: it has no image.", view.state)
        artifact = view.status.result.artifact
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                return artifact, await get_image(self._store, artifact)
        except ArtifactLostError as error:
            message = "The image was made, and its bytes were lost since."
            raise ArtifactLost(message) from error
        # A network file system that is gone blocks its readers.
        except TimeoutError as error:
            raise StoreUnavailable("The artifact store doesn't answer.") from error

    async def cancel(self, job_id: str, message: str) -> JobView:
        """Cancel; a finished job is left as it is."""
        view = await self.read(job_id)
        if view.state.is_terminal:
            return view
        return await self._control(view, SIGNAL_CANCEL, message, "cancel", _is_final)

    async def pause(self, job_id: str, message: str) -> JobView:
        """Pause at the next checkpoint."""
        view = await self.read(job_id)
        if view.state is JobState.PAUSED:
            return view
        if view.state.is_terminal:
            raise _refusal(JobEvent.PAUSE, view)
        view = await self._control(view, SIGNAL_PAUSE, message, "pause", _is_paused_or_final)
        if view.state.is_terminal:
            raise _refusal(JobEvent.PAUSE, view)
        return view

    async def resume(self, job_id: str, message: str) -> JobView:
        """Go on with a paused job, or take back a pause that is not yet carried out."""
        view = await self.read(job_id)
        if _was_resumed(view):
            return view
        if view.state is not JobState.PAUSED and view.status.pending_request != "pause":
            raise _refusal(JobEvent.RESUME, view)
        wish: PendingRequest | None = "resume" if view.state is JobState.PAUSED else None
        view = await self._control(view, SIGNAL_RESUME, message, wish, goes_on)
        if view.state.is_terminal:
            raise _refusal(JobEvent.RESUME, view)
        return view

    async def _control(
        self,
        view: JobView,
        signal: str,
        message: str,
        wish: PendingRequest | None,
        is_done: Callable[[JobView], bool],
    ) -> JobView:
        """Signal, and wait a moment for the effect; what is left is shown as pending."""
        handle = self._reader.handle(view.id)
        try:
            async with answered():
                await handle.signal(signal, ControlNote(source=self._source, message=message))
        except RPCError as error:
            # The job has ended in between: its final state is the answer.
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return await self.read(view.id)
        view = await self._wait(view, is_done)
        if is_done(view) or wish is None or view.status.pending_request == "cancel":
            return view
        status = view.status.model_copy(update={"pending_request": wish})
        return view.model_copy(update={"status": status})

    async def _wait(self, view: JobView, is_done: Callable[[JobView], bool]) -> JobView:
        loop_until = _deadline(CONTROL_WAIT)
        while not is_done(view) and (left := loop_until()) > timedelta(0):
            view = await self.read_after_change(view, left)
        return view


def _lacks_search_attributes(error: RPCError) -> bool:
    is_refusal = error.status is RPCStatusCode.INVALID_ARGUMENT
    return is_refusal and "search attribute" in error.message


def _deadline(limit: timedelta) -> Callable[[], timedelta]:
    end = time.monotonic() + limit.total_seconds()
    return lambda: timedelta(seconds=end - time.monotonic())


def _is_final(view: JobView) -> bool:
    return view.state.is_terminal


def _is_paused_or_final(view: JobView) -> bool:
    return view.state is JobState.PAUSED or view.state.is_terminal


def goes_on(view: JobView) -> bool:
    """Whether a resume has had its effect."""
    return view.state is not JobState.PAUSED and view.status.pending_request != "pause"


def _was_resumed(view: JobView) -> bool:
    """Whether a resume has just been carried out: asked again, the answer is the same."""
    if view.state not in (JobState.PENDING, JobState.PROCESSING) or view.status.pending_request:
        return False
    latest = view.transitions[-2:]
    return any(t.event is JobEvent.RESUME and t.source != WATCHDOG for t in latest)


def _refusal(event: JobEvent, view: JobView) -> IllegalTransition:
    return IllegalTransition(f"{event} is not allowed: the job is {view.state}.", view.state)
