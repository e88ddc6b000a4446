"""A bulk's work: looking through visibility, until every job that it meant was asked."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client, WorkflowExecution

from workflows.bulk_jobs import AskingFailedError, BulkJobs, bulk_query
from workflows.bulk_messages import (
    CARRY_OUT_BULK,
    MAX_TOLD_FAILURES,
    BulkFailure,
    BulkProgress,
    CarryOutInput,
    bulk_workflow_id,
)
from workflows.bulk_turns import BulkTurns
from workflows.listing import quoted
from workflows.options import (
    BULK_AT_ONCE,
    BULK_CALL_TIMEOUT,
    BULK_HEARTBEAT,
    BULK_LONGEST_QUIET,
    BULK_QUIET,
    BULK_STILL_HEARTBEAT,
)

# A row carries a memo, and an answer of Temporal's has a limit.
_ROWS_PER_CALL = 100
_SHORTEST_PAUSE = 1.0
_LONGEST_PAUSE = 10.0


class BulkActivities:
    """Carries bulks out. `quiet` is for how long nothing new may turn up before one is done."""

    def __init__(self, client: Client, quiet: timedelta = BULK_QUIET) -> None:
        self._client = client
        self._quiet = quiet
        # All bulks of this worker together.
        self._gate = asyncio.Semaphore(BULK_AT_ONCE)
        # A tenant with hundreds of bulks keeps nobody waiting but itself.
        self._sweeping: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turns = BulkTurns(client)

    @activity.defn(name=CARRY_OUT_BULK)
    async def carry_out_bulk(self, input: CarryOutInput) -> BulkProgress:
        """Ask every job of the bulk.

        A retry begins anew: it finds the same jobs, and those that were asked drop what they are
        sent a second time.
        """
        sweeping = self._sweeping[input.order.filter.tenant]
        sweeps = BulkSweeps(self._client, self._gate, sweeping, input)
        async with _beating(sweeps):
            await sweeps.until_its_turn(self._turns)
            await sweeps.until_quiet(self._quiet)
        return sweeps.progress


class Calm:
    """Tells when visibility has nothing more to tell.

    It tells of a run a moment after it was accepted, and not in order: how late has no bound that
    Temporal promises. So it has to tell of the bulk's own run, which was accepted after all of its
    jobs, and then to have nothing new for `quiet`; or, where it was seen to be late, for as long
    as it was late, up to a bound. What is late is written in tries whose intervals grow with their
    age: 60 runs of a server that wrote five a second came over 35 s, with gaps of up to 11 s.
    """

    def __init__(self, quiet: timedelta, begun: float) -> None:
        self._quiet = quiet.total_seconds()
        self._begun = self._unsettled = begun
        self._late = 0.0
        self._is_first = True

    def is_over(self, began: float, *, has_found: bool, is_visible: bool) -> bool:
        """Whether a sweep that began then was the last: what it found new, and the own run.

        What the first one finds says nothing of lateness.
        """
        if has_found or not is_visible:
            self._unsettled = began
            if not self._is_first:
                self._late = min(began - self._begun, BULK_LONGEST_QUIET.total_seconds())
        self._is_first = False
        is_settled = is_visible and not has_found
        return is_settled and began >= self._unsettled + max(self._quiet, self._late)


class BulkSweeps:
    """The sweeps of one bulk, and what came of them."""

    def __init__(
        self, client: Client, gate: asyncio.Semaphore, sweeping: asyncio.Lock, input: CarryOutInput
    ) -> None:
        self.progress = BulkProgress()
        self._client = client
        self._gate = gate
        self._sweeping = sweeping
        self._input = input
        self._jobs = BulkJobs(client, input)
        self._query = bulk_query(input.order.filter, input.cutoff_at)
        self._own = f"WorkflowId = {quoted(bulk_workflow_id(input.bulk_id))}"
        # Run ids, some hundred bytes for each run that the tenant had open at the cut-off.
        self._seen: set[str] = set()

    async def until_its_turn(self, turns: BulkTurns) -> None:
        """Wait for older bulks that ask for the opposite; see `BulkTurns`."""
        # Whoever is seen tells of all that were accepted before it, as well as can be known.
        while not await self._is_seen():
            await asyncio.sleep(_SHORTEST_PAUSE)
        seen_at = time.monotonic()
        while not await turns.has_come(self._input, seen_at):
            await asyncio.sleep(_SHORTEST_PAUSE)

    async def until_quiet(self, quiet: timedelta) -> None:
        """Sweep until visibility has nothing more to tell; see `Calm`."""
        calm, is_over = Calm(quiet, time.monotonic()), False
        while not is_over:
            began = time.monotonic()
            async with self._sweeping:
                is_visible = await self._is_visible()
                has_found = await self._sweep()
            is_over = calm.is_over(began, has_found=has_found, is_visible=is_visible)
            if not is_over:
                # As long as the sweep took, to leave the server to others half the time.
                took = time.monotonic() - began
                await asyncio.sleep(min(max(_SHORTEST_PAUSE, took), _LONGEST_PAUSE))

    async def _is_seen(self) -> bool:
        """`_is_visible`, but only one of a tenant's bulks looks at a time."""
        async with self._sweeping:
            return await self._is_visible()

    async def _is_visible(self) -> bool:
        """Whether visibility tells of the bulk itself."""
        found = await self._client.count_workflows(self._own, rpc_timeout=BULK_CALL_TIMEOUT)
        return found.count > 0

    async def _sweep(self) -> bool:
        """Ask what visibility tells of; whether there was anything new."""
        before = len(self._seen)
        async for page in self._pages():
            fresh = {row.run_id: row for row in page if row.run_id not in self._seen}
            await self._settle_all(fresh.values())
            self._seen.update(fresh)
        return len(self._seen) > before

    async def _pages(self) -> AsyncIterator[list[WorkflowExecution]]:
        rows = self._client.list_workflows(
            self._query, page_size=_ROWS_PER_CALL, rpc_timeout=BULK_CALL_TIMEOUT
        )
        await rows.fetch_next_page()
        while rows.current_page is not None:
            yield list(rows.current_page)
            if rows.next_page_token is None:
                return
            await rows.fetch_next_page()

    async def _settle_all(self, rows: Iterable[WorkflowExecution]) -> None:
        """All of them; after an error none goes on, and whoever retries is told the first."""
        try:
            async with asyncio.TaskGroup() as group:
                for row in rows:
                    group.create_task(self._settle(row))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    async def _settle(self, row: WorkflowExecution) -> None:
        try:
            async with self._gate:
                outcome = await self._jobs.ask(row)
        except AskingFailedError as error:
            self._count("failed", error.failure)
            return
        if outcome is not None:
            self._count(outcome)

    def _count(self, name: str, failure: BulkFailure | None = None) -> None:
        known = self.progress
        failures = (*known.failures, failure) if failure else known.failures
        self.progress = known.model_copy(
            update={
                "matched": known.matched + 1,
                name: getattr(known, name) + 1,
                "failures": failures[:MAX_TOLD_FAILURES],
            }
        )


class Beats:
    """What heartbeats tell, and when.

    The server writes each of them down: without news they are few, as hundreds of bulks may wait.
    """

    def __init__(self, told: BulkProgress) -> None:
        self._told = told
        self._told_at = float("-inf")

    def due(self, progress: BulkProgress, now: float) -> BulkProgress | None:
        """What is to be told now, if anything."""
        # Who begins anew is behind for a while; nobody should see a bulk go backwards.
        newest = max(self._told, progress, key=lambda progress: progress.matched)
        is_news = newest is not self._told
        if not is_news and now - self._told_at < BULK_STILL_HEARTBEAT.total_seconds():
            return None
        self._told, self._told_at = newest, now
        return newest


@asynccontextmanager
async def _beating(sweeps: BulkSweeps) -> AsyncIterator[None]:
    """Heartbeats with the progress, whatever is being waited for."""

    async def beat() -> None:
        beats = Beats(_told_before())
        while True:
            if told := beats.due(sweeps.progress, time.monotonic()):
                activity.heartbeat(told)
            await asyncio.sleep(BULK_HEARTBEAT.total_seconds())

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


def _told_before() -> BulkProgress:
    """What the try before this one has told."""
    details = activity.info().heartbeat_details
    return BulkProgress.model_validate(details[0]) if details else BulkProgress()
