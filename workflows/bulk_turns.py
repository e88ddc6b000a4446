"""In which order the bulks of one tenant are carried out."""

from collections.abc import Mapping
from types import MappingProxyType

from temporalio.client import Client

from workflows.bulk_messages import BULK_WORKFLOW, BulkAction, CarryOutInput
from workflows.bulk_reading import order_of
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
    tenant, opposite = input.order.filter.tenant, _OPPOSITES.get(input.order.action)
    if opposite is None:
        return False
    query = (
        f'WorkflowType = {quoted(BULK_WORKFLOW)} AND ExecutionStatus = "Running"'
        f" AND StartTime < {moment(input.cutoff_at)}"
    )
    async for row in client.list_workflows(query, rpc_timeout=BULK_CALL_TIMEOUT):
        order = await order_of(client, row)
        if order and (order.filter.tenant, order.action) == (tenant, opposite):
            return True
    return False
