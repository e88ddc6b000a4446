"""Watching jobs for whoever listens: one look at Temporal for all listeners of a job."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial

from api.outage import ANSWER_WITHIN, answered
from api.problems import TemporalUnavailable
from api.stopping import unless_stopping
from api.story import Story
from workflows.messages import JobView
from workflows.reading import JobNotFoundError, JobReader
from workflows.state_machine import JobState

# As long as Temporal itself keeps a long poll open. A frozen server is noticed after as much.
_LONG_POLL = timedelta(seconds=20)
# Temporal pushes no progress.
_PROGRESS_SECONDS = 0.5
_RETRY_SECONDS = 1.0

logger = logging.getLogger("darkroom.api")


class Watch:
    """One job's newest story, for any number of listeners.

    It keeps the newest and no others: a slow listener costs no memory, and finds in the next one
    what it has missed. It is over once the job is final, or can't be followed any more.
    """

    def __init__(self, job_id: str, reader: JobReader, stopping: asyncio.Event) -> None:
        self.listeners = 0
        self.is_over = False
        self._job_id = job_id
        self._reader = reader
        self._stopping = stopping
        self._story: Story | None = None
        self._failure: Exception | None = None
        self._is_away = False
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"watch {job_id}")

    def end(self) -> None:
        """Stop watching."""
        self._task.cancel()

    async def opened(self) -> Story:
        """The story as far as it is known; raises what keeps it from being read."""
        while self._story is None and not self.is_over:
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure
        if self._story is None or self._is_away:
            raise TemporalUnavailable
        return self._story

    async def after(self, known: Story, seconds: float) -> Story:
        """The newest story, once it isn't the known one; that one after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._story is known and not self.is_over:
                    await self._changed.wait()
        return self._story or known

    async def refreshed(self) -> Story:
        """The story as Temporal tells it now."""
        return self._take(await self._read())

    async def _run(self) -> None:
        try:
            view = await self._read()
            self._take(view)
            await unless_stopping(self._keep_up(view), self._stopping)
        except Exception as error:
            # The requests that wait for the first story answer with it; those that stream end, and
            # their clients hear the reason when they connect again.
            self._failure = error
            if self._story is not None and not isinstance(error, JobNotFoundError):
                logger.exception("a job can't be followed any more")
        finally:
            self.is_over = True
            self._tell()

    async def _keep_up(self, view: JobView) -> None:
        """Return once the job is final."""
        pushed = asyncio.create_task(self._wait_for_transitions(view))
        polled = asyncio.create_task(self._look_for_progress())
        try:
            done, _ = await asyncio.wait((pushed, polled), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            pushed.cancel()
            polled.cancel()

    async def _wait_for_transitions(self, view: JobView) -> None:
        # The view that is known is not the newest story's, which may be an earlier one with the
        # same to tell: the wait for a change of it would be none.
        while not self._take(view).is_final:
            view = await self._outlast(partial(self._read_after_change, view))

    async def _look_for_progress(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            known = self._story
            if known is not None and known.state is JobState.PROCESSING:
                view = await self._outlast(self._read)
                # A look that something has happened during may be older than that.
                if self._story is known:
                    self._take(view, with_progress=True)

    async def _read(self) -> JobView:
        async with answered():
            return await self._reader.read(self._job_id)

    async def _read_after_change(self, known: JobView) -> JobView:
        async with answered(_LONG_POLL + ANSWER_WITHIN):
            return await self._reader.read_after_change(self._job_id, known, _LONG_POLL)

    async def _outlast(self, look: Callable[[], Awaitable[JobView]]) -> JobView:
        """Look, again and again while Temporal is away: listeners are kept, and told afterwards."""
        while True:
            try:
                view = await look()
            except TemporalUnavailable:
                self._is_away = True
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._is_away = False
                return view

    def _take(self, view: JobView, *, with_progress: bool = False) -> Story:
        """Tell the listeners what is new, and give the newest story.

        Two looks are on their way at a time, and the answer of one may be overtaken by the other's.
        Transitions have an order of their own; of progress only those tell `with_progress` whose
        looks follow one another.
        """
        known, story = self._story, Story.of(view, self._story)
        if known is not None:
            is_older = (story.is_final, story.last) < (known.is_final, known.last)
            is_same = (story.state, story.last) == (known.state, known.last)
            if is_older or (is_same and not with_progress) or story == known:
                return known
        self._story = story
        self._tell()
        return story

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Watches:
    """The watches of this process: one for each job that has listeners."""

    def __init__(self, reader: JobReader, stopping: asyncio.Event) -> None:
        self._reader = reader
        self._stopping = stopping
        self._watches: dict[str, Watch] = {}

    @property
    def are_stopping(self) -> bool:
        """Whether the process was told to stop: a watch is over then as soon as it has begun."""
        return self._stopping.is_set()

    @contextmanager
    def of(self, job_id: str) -> Iterator[Watch]:
        """The job's watch, which begins with the first listener and ends with the last."""
        watch = self._watches.get(job_id)
        # One that is over is of no use: the job may be run again.
        if watch is None or watch.is_over:
            watch = self._watches[job_id] = Watch(job_id, self._reader, self._stopping)
        watch.listeners += 1
        try:
            yield watch
        finally:
            watch.listeners -= 1
            if not watch.listeners:
                watch.end()
                if self._watches.get(job_id) is watch:
                    del self._watches[job_id]
