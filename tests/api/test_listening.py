"""Listening where Temporal is away or behind, and where there is nothing to say."""

import asyncio
from contextlib import aclosing

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.artifacts import LocalArtifactStore
from api.listening import EventStream, LastEventId, Listening
from api.watching import Watches
from tests.api.stage import deciding, paint, read_when, removing, working
from tests.api.streams import Serving, create, listen_to
from tests.processes import until
from workflows.messages import JobView
from workflows.reading import JobReader
from workflows.state_machine import JobState


class AwayOnce(JobReader):
    """A reader whose first look at one job meets an outage."""

    def __init__(self, client: Client, job_id: str) -> None:
        super().__init__(client)
        self._left = [job_id]

    async def read(self, job_id: str) -> JobView:
        """See `JobReader.read`."""
        if job_id in self._left:
            self._left.remove(job_id)
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        return await super().read(job_id)


class BehindOnce(JobReader):
    """A reader whose first look is from before the job's first transition."""

    async def read(self, job_id: str) -> JobView:
        """See `JobReader.read`."""
        view = await super().read(job_id)
        is_first, self._is_first = self._is_first, False
        before = {"transitions": (), "state": JobState.PENDING}
        return view.model_copy(update=before) if is_first else view

    _is_first = True


@pytest.fixture
async def finished(
    served: Serving, client: Client, engine: str, store: LocalArtifactStore
) -> tuple[str, int]:
    """The first job of a chain that is over, and how many transitions the chain had."""
    async with working(client, engine, paint(store)), removing(client, paint(store)):
        job_id = await create(served.http, watermark="remove", label_terms_accepted=True)
        await read_when(served.http, job_id, "SUCCESS")
        return job_id, len(await listen_to(served.http, job_id, final="true"))


async def told_of_chain(listening: Listening, job_id: str, after: int) -> str:
    answer = await listening.answer(job_id, LastEventId(after), is_chain=True)
    assert isinstance(answer, EventStream)
    return "".join([str(text) async for text in answer.body_iterator])


async def test_outage_between_the_jobs_of_a_chain_loses_nothing(
    served: Serving, client: Client, finished: tuple[str, int]
) -> None:
    job_id, count = finished
    watches = Watches(AwayOnce(client, f"{job_id}-removal"), asyncio.Event())
    told = await told_of_chain(Listening(served.app.state.jobs, watches), job_id, 0)
    assert told.count("event: transition") == count
    assert told.count(": keep-alive") == 1


async def test_client_that_another_process_told_more_is_believed(
    served: Serving, client: Client
) -> None:
    async with deciding(client):
        job_id = await create(served.http)
        await served.http.post(f"/v1/jobs/{job_id}/pause")
        await read_when(served.http, job_id, "PAUSED")
    watches = Watches(BehindOnce(client), asyncio.Event())
    listening = Listening(served.app.state.jobs, watches)
    answer = await listening.answer(job_id, LastEventId(1), is_chain=False)
    assert isinstance(answer, EventStream)
    await answer.events.aclose()


async def test_client_is_not_told_to_stop_by_a_process_that_does(
    served: Serving, client: Client, finished: tuple[str, int]
) -> None:
    job_id, count = finished
    stopping = asyncio.Event()
    stopping.set()
    listening = Listening(served.app.state.jobs, Watches(JobReader(client), stopping))
    told = await told_of_chain(listening, job_id, 2)
    assert told.count("event: transition") == count - 2 > 0


async def test_silence_is_filled_with_comments(served: Serving) -> None:
    job_id = await create(served.http)
    state = served.app.state
    listening = Listening(state.jobs, state.watches, keep_alive_seconds=0.001)
    answer = await listening.answer(job_id, LastEventId(), is_chain=False)
    assert isinstance(answer, EventStream)
    async with aclosing(answer.events) as events:
        assert {await anext(events) for _ in range(3)} == {": keep-alive\n\n"}
    await until(lambda: served.watches() == 0)
