"""Starting a bulk, and reading it from outside, whether or not any worker is alive."""

from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
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
    BulkOrder,
    BulkProgress,
    BulkState,
    BulkView,
    bulk_workflow_id,
)
from workflows.messages import WORKFLOW_TASK_QUEUE
from workflows.options import WORKFLOW_TASK_TIMEOUT


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
        order = await description.memo_value(ORDER_KEY, None, type_hint=BulkOrder)
        # Without one it was started by hand, and nobody knows whose it is.
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
    recorded = await description.memo_value(PROGRESS_KEY, None, type_hint=BulkProgress)
    if recorded is not None:
        return recorded
    for pending in description.raw_description.pending_activities:
        payloads = pending.heartbeat_details.payloads
        told = await client.data_converter.decode(list(payloads), [BulkProgress])
        return BulkProgress.model_validate(told[0]) if told else BulkProgress()
    result = BulkProgress()
    async for event in handle.fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            payloads = event.activity_task_completed_event_attributes.result.payloads
            [result] = await client.data_converter.decode(list(payloads), [BulkProgress])
    return result
