"""Reading many jobs at once, from the rows of Temporal's visibility: no call for each job."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from workflows.chain import in_chain, is_removal, may_have_successor, removal_id
from workflows.ended_runs import as_it_ended, termination_reason, was_terminated
from workflows.listing import JobFilter, is_wanted, job_query, moment, one_of, quoted
from workflows.messages import JobView
from workflows.names import IMAGE_JOB_WORKFLOW, job_id_of, workflow_id_for
from workflows.paging import Cursor, Key, first_span, reach
from workflows.recalling import Lost, recall_what_is_left, with_gaps

# A row carries a memo, and an answer of Temporal's has a limit.
_ROWS_PER_CALL = 100
_IDS_PER_QUERY = 100
# So many are simply asked for: counting pays where there are more.
_FEW = 100

# Each is a call of its own; whoever wants to know more reads the job itself.
_MAX_REASONS = 50
_REASONS_AT_ONCE = 10
_UNTOLD_REASON = "; the job itself tells the reason"


@dataclass(frozen=True)
class JobPage:
    """Some jobs, newest first, and where the next page begins, if there is one."""

    views: tuple[JobView, ...]
    next: Cursor | None


@dataclass(frozen=True)
class _Row:
    """A row, and what its memo tells."""

    execution: WorkflowExecution
    view: JobView
    lost: Lost

    @property
    def is_running(self) -> bool:
        return self.execution.status is WorkflowExecutionStatus.RUNNING


class JobLister:
    """Tells of all jobs of a filter, as `JobReader` tells of one, but for what they are at.

    What a job waits for and how far it is stand in no row.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._few_reasons = asyncio.Semaphore(_REASONS_AT_ONCE)

    async def page(self, wanted: JobFilter, size: int, after: Cursor | None = None) -> JobPage:
        """At most `size` jobs after a cursor: each once, however many are added meanwhile."""
        asked_at = after.asked_at if after else datetime.now(UTC)
        query, end = job_query(wanted, asked_at), after.started_at if after else asked_at
        since, found = await self._found(query, size, after, end)
        # A job that ends between two of the calls is in both answers.
        once = {row.run_id: row for row in found}.values()
        rows = sorted(once, key=_key, reverse=True)
        rows = [row for row in rows if after is None or _key(row) < after.key]
        views = await self.views([row for row in rows[:size] if job_id_of(row.id)])
        last = rows[size - 1] if len(rows) > size else None
        return JobPage(
            tuple(view for view in views if is_wanted(wanted, view, asked_at)),
            _cursor(last, since, end, asked_at) if last or since else None,
        )

    async def _found(
        self, query: str, size: int, after: Cursor | None, end: datetime
    ) -> tuple[datetime | None, list[WorkflowExecution]]:
        """The jobs of a page and some more, and since when these are all; None: since ever."""
        until = after.started_at if after else None
        few = min(size + 1, _FEW)
        if after is None:
            rows = await self.newest_rows(query, few + 1)
            if len(rows) <= few:
                return None, rows

        async def count(since: datetime) -> int:
            return await self.count(f"{query} AND {_span(since, until)}")

        span = timedelta(seconds=after.span_seconds) if after else first_span()
        # One more than a page has, to know whether there is another page, and the last one's last.
        since = await reach(count, end, size + (2 if after else 1), span)
        return since, [row async for row in self._rows(f"{query} AND {_span(since, until)}")]

    async def views(self, executions: Sequence[WorkflowExecution]) -> list[JobView]:
        """The jobs of these rows, in their order, without runs that others have followed."""
        rows = [await self._row(execution) for execution in executions]
        others = [await self._row(execution) for execution in await self._other_runs(rows)]
        reasons = await self._reasons(rows)
        newest = _newest_by_id((*rows, *others))
        views = {
            row.view.id: _finished(row, reasons.get(row.execution.run_id, ""))
            for row in newest.values()
        }
        told = [views[row.view.id] for row in rows if newest[row.view.id] is row]
        return [in_chain(view, _successor(view, views)) for view in told]

    async def count(self, query: str) -> int:
        """How many executions a query finds."""
        return (await self._client.count_workflows(query)).count

    async def newest_rows(self, query: str, limit: int) -> list[WorkflowExecution]:
        """The first rows in Temporal's order: running ones, then those that were closed last."""
        rows = self._client.list_workflows(query, page_size=min(limit, _ROWS_PER_CALL), limit=limit)
        return [row async for row in rows]

    def _rows(self, query: str) -> AsyncIterator[WorkflowExecution]:
        return self._client.list_workflows(query, page_size=_ROWS_PER_CALL)

    async def _row(self, execution: WorkflowExecution) -> _Row:
        job_id = job_id_of(execution.id) or execution.id
        view, lost = await recall_what_is_left(job_id, execution, self._client.data_converter)
        # Others are served between two rows.
        await asyncio.sleep(0)
        return _Row(execution, view, lost)

    async def _reasons(self, rows: Sequence[_Row]) -> dict[str, str]:
        """Why operators terminated these runs, by run id."""

        async def reason(execution: WorkflowExecution) -> str:
            async with self._few_reasons:
                return await termination_reason(self._client, execution)

        cut_short = [row.execution for row in rows if was_terminated(row.view, row.execution)]
        asked = cut_short[:_MAX_REASONS]
        told = await asyncio.gather(*map(reason, asked))
        untold = {execution.run_id: _UNTOLD_REASON for execution in cut_short}
        return untold | {e.run_id: text for e, text in zip(asked, told, strict=True)}

    async def _other_runs(self, rows: Sequence[_Row]) -> list[WorkflowExecution]:
        """Runs beside these that tell about them: later ones of the same jobs, and successors."""
        closed = {row.execution.id for row in rows if not row.is_running}
        followed = {removal_id(row.view.id) for row in rows if may_have_successor(row.view)}
        asked = sorted(filter(job_id_of, closed | set(map(workflow_id_for, followed))))
        parts = range(0, len(asked), _IDS_PER_QUERY)
        queries = [_beside(tuple(asked[start : start + _IDS_PER_QUERY]), rows) for start in parts]
        return [execution for query in queries async for execution in self._rows(query)]


def _beside(ids: tuple[str, ...], rows: Sequence[_Row]) -> str:
    """A query for other runs than these of some workflows."""
    here = tuple(row.execution.run_id for row in rows if row.execution.id in ids)
    query = f"WorkflowType = {quoted(IMAGE_JOB_WORKFLOW)} AND {one_of('WorkflowId', ids)}"
    return f"{query} AND NOT {one_of('RunId', here)}" if here else query


def _finished(row: _Row, reason: str) -> JobView:
    view = with_gaps(as_it_ended(row.view, row.execution, reason), row.lost)
    known = {"run_id": row.execution.run_id, "is_running": row.is_running}
    return view.model_copy(update=known)


def _key(row: WorkflowExecution) -> Key:
    return row.start_time, row.run_id


def _span(since: datetime | None, until: datetime | None) -> str:
    """Both ends included: a cursor tells which jobs of the last moment were listed."""
    start = f"StartTime >= {moment(since or datetime(2000, 1, 1, tzinfo=UTC))}"
    return f"{start} AND StartTime <= {moment(until)}" if until else start


def _cursor(
    last: WorkflowExecution | None, since: datetime | None, end: datetime, asked_at: datetime
) -> Cursor:
    """After the last row of a page; or before all of the span, where nothing of it is left."""
    started_at, run_id = _key(last) if last else (since or end, "")
    span = max((end - started_at).total_seconds(), 0.0)
    return Cursor(started_at=started_at, run_id=run_id, asked_at=asked_at, span_seconds=span)


def _newest_by_id(rows: Iterable[_Row]) -> dict[str, _Row]:
    newest: dict[str, _Row] = {}
    for row in rows:
        known = newest.get(row.view.id)
        if known is None or _key(row.execution) > _key(known.execution):
            newest[row.view.id] = row
    return newest


def _successor(view: JobView, views: dict[str, JobView]) -> JobView | None:
    """The removal of the job's own image, if there is one."""
    found = views.get(removal_id(view.id)) if may_have_successor(view) else None
    is_own = found is not None and is_removal(found) and found.tenant == view.tenant
    return found if is_own else None
