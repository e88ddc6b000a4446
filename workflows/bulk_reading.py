"""Starting a bulk, and reading it from outside, whether or not any worker is alive."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
)
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from workflows.bulk_messages import (
    BULK_WORKFLOW,
    ORDER_KEY,
    PROGRESS_KEY,
    BulkAction,
    BulkOrder,
    BulkProgress,
    BulkState,
    BulkView,
    bulk_workflow_id,
)
from workflows.decoding import decoded
from workflows.listing import quoted
from workflows.names import WORKFLOW_TASK_QUEUE
from workflows.options import WORKFLOW_TASK_TIMEOUT

T = TypeVar("T")


@dataclass(frozen=True)
class OpenBulk:
    """What matters of a bulk to those that wait for it."""

    tenant: str
    action: BulkAction
    cutoff_at: datetime


class BulkNotFoundError(Exception):
    """There is no such bulk."""


async def start_bulk(
    client: Client, bulk_id: str, order: BulkOrder, *, task_queue: str = WORKFLOW_TASK_QUEUE
) -> WorkflowHandle[object, BulkProgress]:
    """Start a bulk, durably, whether or not any worker is alive.

    Raises `WorkflowAlreadyStartedError` if there is or was one of this id.
    """
    return await client.start_workflow(
        BULK_WORKFLOW,
        order,
        id=bulk_workflow_id(bulk_id),
        task_queue=task_queue,
        result_type=BulkProgress,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        task_timeout=WORKFLOW_TASK_TIMEOUT,
        memo={ORDER_KEY: order},
        priority=Priority(fairness_key=order.filter.tenant),
        static_summary=f"bulk {order.action} for {order.filter.tenant}",
    )


async def read_bulk(client: Client, bulk_id: str) -> BulkView:
    """The bulk as it is now, or `BulkNotFoundError`."""
    handle = client.get_workflow_handle(bulk_workflow_id(bulk_id))
    try:
        description = await handle.describe()
        if description.workflow_type != BULK_WORKFLOW:
            raise BulkNotFoundError(bulk_id)
        order = await order_of(client, description)
        if order is None:
            raise BulkNotFoundError(bulk_id)
        progress = await _progress(client, handle, description)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise BulkNotFoundError(bulk_id) from error
        raise
    return BulkView(
        id=bulk_id,
        state=_state(description),
        order=order,
        cutoff_at=description.start_time,
        finished_at=description.close_time,
        progress=progress,
    )


def _state(description: WorkflowExecutionDescription) -> BulkState:
    if description.status is WorkflowExecutionStatus.RUNNING:
        return "RUNNING"
    is_done = description.status is WorkflowExecutionStatus.COMPLETED
    return "DONE" if is_done else "STOPPED"


async def _progress(
    client: Client,
    handle: WorkflowHandle[object, object],
    description: WorkflowExecutionDescription,
) -> BulkProgress:
    """How far it is: as recorded at its end, as its activity last told, or as that returned."""
    recorded = await _memo_entry(client, description, PROGRESS_KEY, BulkProgress)
    if recorded is not None:
        return recorded
    # Before the first heartbeat there is nothing yet.
    told: Sequence[Payload] = ()
    for pending in description.raw_description.pending_activities:
        told = pending.heartbeat_details.payloads
    if not description.raw_description.pending_activities:
        async for event in handle.fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                told = event.activity_task_completed_event_attributes.result.payloads
    return await decoded(client.data_converter, told, BulkProgress) or BulkProgress()


async def open_bulks(client: Client, rpc_timeout: timedelta | None = None) -> list[OpenBulk]:
    """All bulks that visibility knows to be running, but those that were started by hand."""
    query = f'WorkflowType = {quoted(BULK_WORKFLOW)} AND ExecutionStatus = "Running"'
    found = []
    async for row in client.list_workflows(query, rpc_timeout=rpc_timeout):
        if order := await order_of(client, row):
            found.append(OpenBulk(order.filter.tenant, order.action, row.start_time))
    return found


async def order_of(client: Client, execution: WorkflowExecution) -> BulkOrder | None:
    """What a bulk was told to do; None of one that was started by hand: nobody knows whose it is.

    Of a description, or of a row of a list.
    """
    return await _memo_entry(client, execution, ORDER_KEY, BulkOrder)


async def _memo_entry(
    client: Client, execution: WorkflowExecution, key: str, kind: type[T]
) -> T | None:
    fields = execution.raw_info.memo.fields
    said = [fields[key]] if key in fields else []
    return await decoded(client.data_converter, said, kind)
