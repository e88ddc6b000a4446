"""Reading a job's record back, whatever is left of it: anybody may write to a memo.

From the description of one execution, or from a row of a list, which has the same memo.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowExecution
from temporalio.converter import DataConverter

from activities.errors import ErrorKind
from workflows.job_record import STATUS_KEY, record_from_memo
from workflows.messages import JobError, JobView, with_status
from workflows.search_attributes import JOB_STATE, JOB_UPDATED_AT
from workflows.state_machine import JobState

# The names of memo entries that can't be read.
Lost = tuple[str, ...]


async def recall(job_id: str, execution: WorkflowExecution) -> JobView:
    """The whole record; raises if any part of it can't be read."""
    memo = await execution.memo()
    return record_from_memo(job_id, execution.start_time, memo).view()


async def recall_what_is_left(
    job_id: str, execution: WorkflowExecution, converter: DataConverter
) -> tuple[JobView, Lost]:
    """As much of the record as can be read, and the names of what can't.

    Where a transition is missing, the search attributes tell the state.
    """
    try:
        view = await recall(job_id, execution)
        view.model_dump_json()
    except Exception:  # noqa: BLE001 - whatever the fault is, the parts are tried one by one
        fields = execution.raw_info.memo.fields
        return _recall_parts(job_id, execution, await _decoded(fields, converter))
    return view, ()


def _recall_parts(
    job_id: str, execution: WorkflowExecution, memo: dict[str, Any]
) -> tuple[JobView, Lost]:
    created_at = execution.start_time
    parts = {key: _readable(key, value, created_at) for key, value in memo.items()}
    kept = {key: part for key, part in parts.items() if part is not None}
    lost = tuple(key for key, part in parts.items() if part != memo[key])
    view = record_from_memo(job_id, created_at, kept).view()
    if any(key.startswith("transition") for key in lost):
        view = _with_stored_state(view, execution)
    return view, lost


def with_gaps(view: JobView, lost: Lost) -> JobView:
    """Say in words what could not be read, where a reader looks for reasons."""
    if not lost:
        return view
    message = f"a part of this job's record can't be read: {', '.join(sorted(lost))}"
    if not view.state.is_terminal:
        reasons = filter(None, (view.waiting_for, message))
        return view.model_copy(update={"waiting_for": "; ".join(reasons)})
    if view.status.error is not None or view.status.result is not None:
        return view
    return with_status(
        view, error=JobError(kind=ErrorKind.INTERNAL, message=message, retryable=True)
    )


async def _decoded(fields: Mapping[str, Payload], converter: DataConverter) -> dict[str, Any]:
    """Every memo entry; an undecodable one as its bytes, which are no part of any record."""
    memo: dict[str, Any] = {}
    for key, payload in fields.items():
        try:
            [memo[key]] = await converter.decode([payload])
        except Exception:  # noqa: BLE001 - an encoding of anybody's own
            memo[key] = payload.data
    return memo


def _readable(key: str, value: Any, created_at: datetime) -> Any:
    """What of a memo entry can be read; None for nothing."""
    if _reads(key, value, created_at):
        return value
    if key == STATUS_KEY and isinstance(value, dict):
        return {k: v for k, v in value.items() if _reads(key, {k: v}, created_at)}
    return None


def _reads(key: str, value: Any, created_at: datetime) -> bool:
    """Whether a record with only this entry can be read, and be told in JSON."""
    try:
        record_from_memo("x", created_at, {key: value}).view().model_dump_json()
    except Exception:  # noqa: BLE001 - whatever the fault is, this entry is left out
        return False
    return True


def _with_stored_state(view: JobView, execution: WorkflowExecution) -> JobView:
    stored = execution.typed_search_attributes
    state, updated_at = stored.get(JOB_STATE), stored.get(JOB_UPDATED_AT)
    known = {"state": JobState(state)} if state in set(JobState) else {}
    return view.model_copy(update={**known, "updated_at": updated_at or view.updated_at})
