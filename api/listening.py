"""Listening to a job, or to its chain, as a stream of server-sent events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from activities.errors import WorkError
from api.head import is_head
from api.jobs import Jobs, require_id
from api.problems import JobNotFound, Unavailable
from api.story import KEEP_ALIVE, Teller
from api.watching import Watches
from workflows.chain import may_have_successor, removal_id
from workflows.reading import JobNotFoundError

_KEEP_ALIVE_SECONDS = 15.0
_LOOK_AGAIN_SECONDS = 1.0

HEADERS = {
    # By itself, Starlette would name the charset; an event stream has only one.
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    # Nginx would hold events back until its buffer is full.
    "X-Accel-Buffering": "no",
}


class EventStream(StreamingResponse):
    """An answer that goes on until there is nothing more to tell, or nobody there to hear it."""

    def __init__(self, first: str, events: AsyncGenerator[str]) -> None:
        super().__init__(_beginning_with(first, events), headers=HEADERS)
        self.events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. Whichever way it ends, the listener is gone then."""
        async with aclosing(self.events):
            if is_head(scope):
                start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                await send(start)
                await send({"type": "http.response.body"})
            else:
                await super().__call__(scope, receive, send)


async def _beginning_with(first: str, events: AsyncGenerator[str]) -> AsyncGenerator[str]:
    yield first
    async for text in events:
        yield text


@dataclass(frozen=True)
class LastEventId:
    """Where a client was, and where in its request it said so."""

    value: int = 0
    location: tuple[str, str] = ("header", "Last-Event-ID")


class Listening:
    """Streams the events of one tenant's jobs."""

    def __init__(
        self, jobs: Jobs, watches: Watches, *, keep_alive_seconds: float = _KEEP_ALIVE_SECONDS
    ) -> None:
        self._keep_alive_seconds = keep_alive_seconds
        self._jobs = jobs
        self._watches = watches

    async def answer(self, job_id: str, after: LastEventId, *, is_chain: bool) -> Response:
        """The events after an id; 204, which ends a client's reconnecting, if none can follow."""
        require_id(job_id)
        teller = Teller(after.value)
        events = self._chain(job_id, teller) if is_chain else self._job(job_id, teller)
        # Before the answer begins, an error can still be told as one.
        first = await anext(events, None)
        if teller.is_ahead:
            await events.aclose()
            raise _unknown(after, teller.last)
        return EventStream(first, events) if first else Response(status_code=204)

    async def _chain(self, job_id: str, teller: Teller) -> AsyncGenerator[str]:
        async with aclosing(self._job(job_id, teller)) as events:
            async for text in events:
                yield text
        if teller.story is None or not may_have_successor(teller.story.view):
            return
        teller.move_on()
        async with aclosing(self._successor(removal_id(job_id), teller)) as events:
            async for text in events:
                yield text

    async def _successor(self, job_id: str, teller: Teller) -> AsyncGenerator[str]:
        """The events of a job that may not be there; none can be missed by looking again."""
        while True:
            try:
                async with aclosing(self._job(job_id, teller)) as events:
                    async for text in events:
                        yield text
                return
            except (JobNotFound, JobNotFoundError):
                return
            except (Unavailable, WorkError):
                # A stream that has begun can't tell of it, and had better be kept.
                if not teller.has_begun:
                    raise
                if self._watches.are_stopping:
                    return
            yield KEEP_ALIVE
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def _job(self, job_id: str, teller: Teller) -> AsyncGenerator[str]:
        with self._watches.of(job_id) as watch:
            story = await watch.opened()
            self._jobs.require_own(story.view)
            # Another process may have told of a transition a moment before this one knows of it.
            if teller.is_ahead_of(story) and not story.is_final:
                story = await watch.refreshed()
            while True:
                if text := teller.news(story):
                    yield text
                if story.is_final:
                    return
                newest = await watch.after(story, self._keep_alive_seconds)
                if newest is story:
                    if watch.is_over:
                        return
                    yield KEEP_ALIVE
                story = newest


def _unknown(after: LastEventId, last: int) -> RequestValidationError:
    message = f"there is no event {after.value} of this job; the last one is {last}"
    return RequestValidationError([{"loc": after.location, "msg": message}])
