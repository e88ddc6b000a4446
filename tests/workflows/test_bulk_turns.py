"""Whose turn it is, where many bulks of one tenant wait."""

import asyncio
import time

from tests.api.counting import counting
from tests.workflows.bulks import start_order
from tests.workflows.stage import Stage, until
from workflows.bulk_messages import BulkAction, CarryOutInput, bulk_id_of
from workflows.bulk_reading import read_bulk
from workflows.bulk_turns import BulkTurns

WAITING = 20


async def order_of(stage: Stage, action: BulkAction, tenant: str) -> CarryOutInput:
    """What the activity of a bulk is told that nobody carries out."""
    handle = await start_order(stage, action, tenant, f"nobody-{tenant}")
    stage.handles.append(handle)
    bulk_id = bulk_id_of(handle.id)
    view = await read_bulk(stage.client, bulk_id)

    async def is_listed() -> bool:
        return (await stage.client.count_workflows(f'WorkflowId = "{handle.id}"')).count == 1

    await until(is_listed)
    return CarryOutInput(bulk_id=bulk_id, order=view.order, cutoff_at=view.cutoff_at)


async def test_turn_comes_once_nothing_older_asks_for_the_opposite(
    stage: Stage, tenant: str
) -> None:
    resume = await order_of(stage, "resume", tenant)
    older = await order_of(stage, "pause", tenant)
    of_another = await order_of(stage, "resume", f"{tenant}-2")
    younger = await order_of(stage, "resume", tenant)
    cancel = await order_of(stage, "cancel", tenant)
    turns = BulkTurns(stage.client)
    come = {
        order.bulk_id
        for order in (resume, older, of_another, younger, cancel)
        if await turns.has_come(order, time.monotonic())
    }
    assert come == {resume.bulk_id, of_another.bulk_id, cancel.bulk_id}


async def test_one_look_is_for_all_that_wait(stage: Stage, tenant: str) -> None:
    await order_of(stage, "pause", tenant)
    order = await order_of(stage, "resume", tenant)
    client, asked = counting(stage.client)
    turns, seen_at = BulkTurns(client), time.monotonic()
    come = await asyncio.gather(*(turns.has_come(order, seen_at) for _ in range(WAITING)))
    assert come == [False] * WAITING
    assert asked == {"list_workflow_executions": 1}


async def test_bulk_that_is_seen_after_a_look_is_told_by_another(stage: Stage, tenant: str) -> None:
    turns, order = BulkTurns(stage.client), await order_of(stage, "resume", tenant)
    assert await turns.has_come(order, time.monotonic())
    await order_of(stage, "pause", tenant)
    younger = await order_of(stage, "resume", tenant)
    assert not await turns.has_come(younger, time.monotonic())
