"""Which jobs a list has: its filters as a query to Temporal's visibility, and as a test of a job.

Pure. The query finds; the test decides, since search attributes can be as old as a moment, and
can have been set by hand. What a query is given by anybody stands in quotes that it can't leave.
"""

import re
from datetime import UTC, datetime, timedelta

from activities.values import Model, UtcTime
from workflows.messages import DEFAULT_TENANT, JobType, JobView
from workflows.names import IMAGE_JOB_WORKFLOW
from workflows.search_attributes import (
    JOB_ENGINE,
    JOB_LABELS,
    JOB_PRIORITY,
    JOB_STATE,
    JOB_TENANT,
    JOB_TYPE,
    JOB_UPDATED_AT,
    JOB_WORKER,
    label_entry,
    label_texts,
)
from workflows.state_machine import JobState

# No escape for them works on each of Temporal's databases: SQLite finds nothing with a backslash.
_UNQUOTABLE = re.compile("[\"'`\\\\\0-\x1f\x7f\ud800-\udfff]")

_FINAL = tuple(state for state in JobState if state.is_terminal)
_OPEN = tuple(state for state in JobState if not state.is_terminal)


class UnquotableError(ValueError):
    """A text that can't stand in a query."""


class JobFilter(Model):
    """Jobs of one tenant: of any of the values of each filter that has values."""

    tenant: str
    states: tuple[JobState, ...] = ()
    types: tuple[JobType, ...] = ()
    engines: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    priorities: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    created_after: UtcTime | None = None
    created_before: UtcTime | None = None
    updated_before: UtcTime | None = None
    running_longer_than_seconds: float | None = None

    def running_since(self, now: datetime) -> datetime | None:
        """Since when, at least, the jobs have been in PROCESSING."""
        seconds = self.running_longer_than_seconds
        return None if seconds is None else now - timedelta(seconds=seconds)


def is_quotable(text: str) -> bool:
    """Whether `quoted` takes it."""
    return _UNQUOTABLE.search(text) is None


def quoted(text: str) -> str:
    """A text as a literal of a query; raises `UnquotableError` rather than escape anything."""
    if not is_quotable(text):
        raise UnquotableError("a text of a query has no quotes, backslashes or control characters")
    return f'"{text}"'


def one_of(attribute: str, values: tuple[str, ...]) -> str:
    """That an attribute has one of the values."""
    return f"{attribute} IN ({', '.join(map(quoted, values))})"


def moment(at: datetime) -> str:
    """A time as a literal; Temporal's databases keep microseconds."""
    return f'"{at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")}"'


def job_query(wanted: JobFilter, now: datetime) -> str:
    """The query for the jobs that `is_wanted` looks at; always of this tenant alone."""
    return " AND ".join((_of_tenant(wanted.tenant), *_texts(wanted), *_times(wanted, now)))


def is_wanted(wanted: JobFilter, view: JobView, now: datetime) -> bool:
    """Whether a job that the query found is one that was asked for."""
    labels = label_texts(view.request.labels) if view.request else set()
    since = wanted.running_since(now)
    return (
        view.tenant == wanted.tenant
        and (not wanted.states or view.state in wanted.states)
        and (not wanted.priorities or view.priority in wanted.priorities)
        and (not wanted.labels or not labels.isdisjoint(wanted.labels))
        and (wanted.updated_before is None or view.updated_at < wanted.updated_before)
        and (since is None or (view.state is JobState.PROCESSING and view.updated_at < since))
    )


def _not_final() -> str:
    return f"({JOB_STATE.name} IS NULL OR {one_of(JOB_STATE.name, _OPEN)})"


def in_state(state: JobState) -> str:
    """That a job reads as being in the state.

    A run that was ended without its code keeps its last `JobState`: Temporal's status decides.
    """
    stored = f"{JOB_STATE.name} = {quoted(state)}"
    if not state.is_terminal:
        unset = f" OR {JOB_STATE.name} IS NULL" if state is JobState.PENDING else ""
        return f'(({stored}{unset}) AND ExecutionStatus = "Running")'
    if state is JobState.FAILED:
        return f'({stored} OR ({_not_final()} AND ExecutionStatus NOT IN ("Running", "TimedOut")))'
    if state is JobState.TIMEOUT_CANCELLED:
        return f'({stored} OR ({_not_final()} AND ExecutionStatus = "TimedOut"))'
    return f"({stored})"


def _of_tenant(tenant: str) -> str:
    owner = f"{JOB_TENANT.name} = {quoted(tenant)}"
    if tenant == DEFAULT_TENANT:
        # A job that was started by hand, before any worker has seen it.
        owner = f"({owner} OR {JOB_TENANT.name} IS NULL)"
    return f"WorkflowType = {quoted(IMAGE_JOB_WORKFLOW)} AND {owner}"


def _texts(wanted: JobFilter) -> list[str]:
    terms = []
    if wanted.states:
        terms.append(f"({' OR '.join(in_state(state) for state in wanted.states)})")
    if wanted.types:
        terms.append(one_of(JOB_TYPE.name, wanted.types))
    if wanted.engines:
        terms.append(one_of(JOB_ENGINE.name, wanted.engines))
    if wanted.workers:
        terms.append(one_of(JOB_WORKER.name, wanted.workers))
    if wanted.priorities:
        terms.append(f"{JOB_PRIORITY.name} IN ({', '.join(map(str, wanted.priorities))})")
    if wanted.labels:
        terms.append(one_of(JOB_LABELS.name, tuple(map(label_entry, wanted.labels))))
    return terms


def _times(wanted: JobFilter, now: datetime) -> list[str]:
    terms = []
    if wanted.created_after:
        terms.append(f"StartTime >= {moment(wanted.created_after)}")
    if wanted.created_before:
        terms.append(f"StartTime < {moment(wanted.created_before)}")
    if before := wanted.updated_before:
        # The end of a run that was ended without its code is a change that it didn't record.
        running = f'(ExecutionStatus = "Running" OR {one_of(JOB_STATE.name, _FINAL)})'
        recorded = f"{running} AND {JOB_UPDATED_AT.name} < {moment(before)}"
        ended = f"{_not_final()} AND CloseTime < {moment(before)}"
        terms.append(f"(({recorded}) OR ({ended}))")
    if since := wanted.running_since(now):
        processing = in_state(JobState.PROCESSING)
        terms.append(f"{processing} AND {JOB_UPDATED_AT.name} < {moment(since)}")
    return terms
