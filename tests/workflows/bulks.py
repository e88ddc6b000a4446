"""Bulks whose sweeps are made when a test says so."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker

from tests.workflows.stage import Stage, until
from workflows.bulk import BulkWorkflow
from workflows.bulk_messages import BulkAction, BulkOrder, BulkProgress, CarryOutInput
from workflows.bulk_reading import start_bulk
from workflows.bulk_sweep import BulkActivities
from workflows.listing import JobFilter
from workflows.notes import ControlNote

NOTE = ControlNote(source="api:somebody", message="all of them")
AT_ONCE = timedelta(0)


class Bulk:
    """A bulk whose own workflow nobody runs: its sweeps are made when a test says so."""

    def __init__(self, client: Client, input: CarryOutInput) -> None:
        self._client = client
        self._input = input

    async def sweep(self, quiet: timedelta = AT_ONCE) -> BulkProgress:
        """All sweeps, as one execution of the activity makes them."""
        activities = BulkActivities(self._client, quiet)
        progress: BulkProgress = await ActivityEnvironment(self._client).run(
            activities.carry_out_bulk, self._input
        )
        return progress


async def accepted(stage: Stage, action: BulkAction, tenant: str, **fields: Any) -> Bulk:
    """A bulk on the tenant's jobs, once all that the stage has started can be listed."""

    async def are_listed() -> bool:
        ids = ", ".join(f'"{handle.id}"' for handle in stage.handles)
        return (await stage.client.count_workflows(f"WorkflowId IN ({ids})")).count >= len(
            stage.handles
        )

    await until(are_listed)
    return await accepted_at_once(stage.client, action, tenant, **fields)


async def accepted_at_once(client: Client, action: BulkAction, tenant: str, **fields: Any) -> Bulk:
    """A bulk, whatever can be listed."""
    bulk_id, wanted = uuid4().hex, JobFilter(tenant=tenant, **fields)
    order = BulkOrder(action=action, filter=wanted, note=NOTE)
    handle = await start_bulk(client, bulk_id, order, task_queue=f"nobody-{bulk_id}")
    cutoff_at = (await handle.describe()).start_time
    await handle.terminate()
    return Bulk(client, CarryOutInput(bulk_id=bulk_id, order=order, cutoff_at=cutoff_at))


async def start_order(
    stage: Stage, action: BulkAction, tenant: str, task_queue: str
) -> WorkflowHandle[object, BulkProgress]:
    """A bulk on all of the tenant's jobs, to be carried out as it should be."""
    order = BulkOrder(action=action, filter=JobFilter(tenant=tenant), note=NOTE)
    return await start_bulk(stage.client, uuid4().hex, order, task_queue=task_queue)


def carrying_out(client: Client, task_queue: str) -> Worker:
    """A worker for bulks alone, which are done as soon as a sweep finds nothing new."""
    bulks = BulkActivities(client, AT_ONCE)
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[BulkWorkflow],
        activities=[bulks.carry_out_bulk],
    )


async def signals_of(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """The signals that a job was sent, in order."""
    return [
        event.workflow_execution_signaled_event_attributes.signal_name
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    ]


def told(progress: BulkProgress) -> dict[str, int]:
    """The counts that are not zero."""
    counts = progress.model_dump(exclude={"failures"})
    return {name: count for name, count in counts.items() if count}
