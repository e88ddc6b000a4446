"""In which order the bulks of one tenant are carried out."""

from collections.abc import Mapping
from types import MappingProxyType

from temporalio.client import Client, WorkflowExecution

from workflows.bulk_messages import (
    BULK_WORKFLOW,
    ORDER_KEY,
    BulkAction,
    BulkOrder,
    CarryOutInput,
)
from workflows.listing import moment, quoted
from workflows.options import BULK_CALL_TIMEOUT

# What comes later takes back what comes earlier; nothing takes a cancel back.
_OPPOSITES: Mapping[BulkAction, BulkAction] = MappingProxyType(
    {"pause": "resume", "resume": "pause"}
)


async def is_older_opposite_open(client: Client, input: CarryOutInput) -> bool:
    """Whether an older bulk of the tenant has yet to ask for the opposite.

    The younger one must not go before it: it would find nothing to change, and the older one's
    word would be the last.
    """
    opposite = _OPPOSITES.get(input.order.action)
    if opposite is None:
        return False
    query = (
        f'WorkflowType = {quoted(BULK_WORKFLOW)} AND ExecutionStatus = "Running"'
        f" AND StartTime < {moment(input.cutoff_at)}"
    )
    async for row in client.list_workflows(query, rpc_timeout=BULK_CALL_TIMEOUT):
        order = await _order_of(row)
        is_own = order is not None and order.filter.tenant == input.order.filter.tenant
        if order is not None and is_own and order.action == opposite:
            return True
    return False


async def _order_of(row: WorkflowExecution) -> BulkOrder | None:
    try:
        order: BulkOrder | None = await row.memo_value(ORDER_KEY, None, type_hint=BulkOrder)
    # One that was started by hand can have anything there, and asks nobody for anything.
    except Exception:  # noqa: BLE001
        return None
    return order
