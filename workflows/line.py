"""Who is ahead of a waiting job: the line before each kind of worker, read as a whole now and then.

Temporal tells how many tasks of each priority wait, and not who stands where among them. Its
visibility has every waiting job with its priority, its tenant and its time, in rows.
"""

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecution

from workflows.job_record import REQUEST_KEY, STATUS_KEY
from workflows.listing import in_state, quoted
from workflows.messages import DEFAULT_TENANT, LEAST_WEIGHT, MOST_WEIGHT, ImageJobInput, JobView
from workflows.names import IMAGE_JOB_WORKFLOW
from workflows.remembering import RememberedEach
from workflows.search_attributes import (
    JOB_ENGINE,
    JOB_PRIORITY,
    JOB_TENANT,
    JOB_TYPE,
    JOB_UPDATED_AT,
)
from workflows.starting import priority_key
from workflows.state_machine import JobState
from workflows.times import in_utc

# A row carries a memo, and an answer of Temporal's has a limit.
_ROWS_PER_CALL = 200
# Beyond this only the number of those that wait is told.
_MOST_ROWS = 10_000
# Short lines move fast; a long one takes seconds to read, and is read again when ten times as much
# has gone by.
_EVERY_SECONDS = 2.0
_REST = 10
_MOST_LINES = 1000
# A reader doesn't wait long for a thing that is only about; longer where nothing is known yet.
_PATIENCE_SECONDS = 0.5
_FIRST_PATIENCE_SECONDS = 2.0


@dataclass(frozen=True)
class Place:
    """Where a job stands. The smaller Temporal's priority key, the earlier its turn."""

    priority_key: int
    tenant: str
    since: datetime
    weight: float = 1.0


class Line:
    """All that wait for the same workers, each at its place."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._levels: dict[int, dict[str, list[Place]]] = {}
        for place in sorted(places, key=lambda place: place.since):
            level = self._levels.setdefault(place.priority_key, {})
            level.setdefault(place.tenant, []).append(place)

    def ahead_of(self, place: Place) -> int:
        """How many come first: all of higher priorities, and at its own as tenants take turns."""
        higher = sum(
            len(places)
            for key, level in self._levels.items()
            if key < place.priority_key
            for places in level.values()
        )
        level = self._levels.get(place.priority_key, {})
        own = bisect_left(level.get(place.tenant, ()), place.since, key=_since)
        others = (places for tenant, places in level.items() if tenant != place.tenant)
        return higher + own + sum(_turns_before(places, own, place) for places in others)


def _since(place: Place) -> datetime:
    return place.since


def _turns_before(others: Sequence[Place], own: int, place: Place) -> int:
    """How many of another tenant's come before a job that `own` ones of its tenant's precede.

    By the weights of those that are served next: a tenant's nth turn comes at n / weight. Where
    both have theirs at once, the earlier job comes first.
    """
    turns = (own + 1) * others[0].weight / place.weight
    before = math.ceil(turns) - 1
    is_tied = before + 1 == turns and len(others) > before and others[before].since < place.since
    return min(len(others), before) + is_tied


class Lines:
    """The lines, shared by all who read waiting jobs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lines = RememberedEach(self._read, _EVERY_SECONDS, most=_MOST_LINES, rest=_REST)

    async def of(self, request: ImageJobInput) -> Line | None:
        """The line that a job of this request stands in; None where it isn't known (yet)."""
        line = self._lines.of(line_query(request))
        patience = _PATIENCE_SECONDS if line.has_answer else _FIRST_PATIENCE_SECONDS
        return await line.newest_within(patience)

    async def _read(self, query: str) -> Line | None:
        """None where it is too long: the newest come first, and the oldest would be missing."""
        now = datetime.now(UTC)
        rows = self._client.list_workflows(query, page_size=_ROWS_PER_CALL, limit=_MOST_ROWS + 1)
        places = [_place_of_row(row) async for row in rows]
        if len(places) > _MOST_ROWS:
            return None
        # The others stand in no line yet.
        return Line(place for place in places if place.since <= now)


def line_query(request: ImageJobInput) -> str:
    """A query for all jobs that wait for the same workers; see `work_route`."""
    ofs = [f"{JOB_TYPE.name} = {quoted(request.type)}"]
    if request.type != "WATERMARK_REMOVAL":
        ofs.append(f"{JOB_ENGINE.name} = {quoted(request.engine)}")
    workflow_type = f"WorkflowType = {quoted(IMAGE_JOB_WORKFLOW)}"
    return " AND ".join((workflow_type, in_state(JobState.PENDING), *ofs))


def place_of(view: JobView, execution: WorkflowExecution, startable_at: datetime | None) -> Place:
    """The place of a job that could start at a time, or as soon as it was PENDING."""
    moved_at = max((a.at for a in view.status.amendments if a.priority is not None), default=None)
    since = _waiting_since(execution, startable_at, moved_at)
    weight = view.request.fairness_weight if view.request else Place.weight
    return Place(priority_key(view.priority), view.tenant, since, weight)


def _place_of_row(row: WorkflowExecution) -> Place:
    priority, tenant = _attribute(row, JOB_PRIORITY.name), _attribute(row, JOB_TENANT.name)
    memo = row.raw_info.memo.fields
    status, request = _read(memo.get(STATUS_KEY)), _read(memo.get(REQUEST_KEY))
    return Place(
        priority_key(priority if isinstance(priority, int) else 0),
        tenant if isinstance(tenant, str) else DEFAULT_TENANT,
        _waiting_since(row, *_own_times(status, request)),
        _weight(_entry(request, "fairness_weight")),
    )


def _waiting_since(execution: WorkflowExecution, *since: datetime | None) -> datetime:
    """A job's own place and its row's must be told by the same clock: that of its attributes."""
    updated_at = _time(_attribute(execution, JOB_UPDATED_AT.name)) or execution.start_time
    return max((updated_at, *(at for at in since if at is not None)))


def _own_times(status: Any, request: Any) -> tuple[datetime | None, datetime | None]:
    """When it could start, and when it went to the end of another priority's line."""
    startable_at = _time(_entry(status, "startable_at")) or _time(_entry(request, "start_at"))
    told = _entry(status, "amendments")
    amendments = told if isinstance(told, list) else []
    moves = [_time(_entry(a, "at")) for a in amendments if _entry(a, "priority") is not None]
    return startable_at, max((at for at in moves if at is not None), default=None)


def _attribute(execution: WorkflowExecution, name: str) -> Any:
    return _read(execution.raw_info.search_attributes.indexed_fields.get(name))


def _read(payload: Payload | None) -> Any:
    """Without the models and the converters: there are thousands of rows.

    None for what is no JSON: anybody may write to a memo.
    """
    try:
        return json.loads(payload.data) if payload else None
    except ValueError:
        return None


def _entry(told: Any, key: str) -> Any:
    return told.get(key) if isinstance(told, dict) else None


def _weight(told: Any) -> float:
    is_number = isinstance(told, (int, float)) and LEAST_WEIGHT <= told <= MOST_WEIGHT
    return float(told) if is_number else Place.weight


def _time(told: Any) -> datetime | None:
    try:
        return in_utc(datetime.fromisoformat(told)) if isinstance(told, str) else None
    except ValueError:
        return None
