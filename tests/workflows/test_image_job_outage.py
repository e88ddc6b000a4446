"""Attempts that are lost while Temporal itself is out of reach, and those that only look so."""

import asyncio
import contextlib

from temporalio.client import Client, WorkflowFailureError

from tests.fakes import Behaviour
from tests.workflows.behaviours import (
    fall_silent,
    fall_silent_in_an_outage,
    one_after_another,
    succeed,
)
from tests.workflows.stage import Stage, events_of
from workflows.messages import JobView
from workflows.state_machine import JobState


async def life_after(client: Client, first: Behaviour, workflows_away_seconds: float) -> JobView:
    """A job of one attempt, whose workflow worker is away for some time after the claim."""
    stage = Stage(client)
    async with stage.working(stage.work(one_after_another([first, succeed]))):
        async with stage.deciding():
            handle = await stage.start(max_attempts=1)
            await stage.until(handle, JobState.PROCESSING, lambda v: v.status.progress is not None)
        await asyncio.sleep(workflows_away_seconds)
        async with stage.deciding():
            with contextlib.suppress(WorkflowFailureError):
                await handle.result()
            view = await stage.view(handle)
    await stage.close()
    return view


async def test_only_a_loss_that_the_server_could_not_have_noticed_in_time_is_free(
    client: Client,
) -> None:
    """Each takes some seconds, so they are waited for at the same time."""
    outage, killed, killed_unseen = await asyncio.gather(
        life_after(client, fall_silent_in_an_outage, 0),
        life_after(client, fall_silent, 0),
        # What counts is when the server noticed, not when a workflow worker heard of it.
        life_after(client, fall_silent, 9),
    )
    assert events_of(outage) == ["START", "RETRY", "START", "COMPLETE"]
    retry = outage.transitions[1]
    assert retry.source == "watchdog"
    assert retry.message == "Temporal was out of reach for about 8 s; next attempt at once"
    assert outage.status.attempt == 1
    for view in (killed, killed_unseen):
        assert events_of(view) == ["START", "FAIL"]
        assert view.transitions[1].message.endswith("was lost: no heartbeat for 4 s")
