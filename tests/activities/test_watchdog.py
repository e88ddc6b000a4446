"""What the watchdog sees of a running attempt, on a real server."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment

from activities.models import AttemptHeartbeat, Phase, Progress
from activities.watchdog import ReadIdleInput, WatchdogActivities
from tests.activities.probe import probing, result_of
from tests.activities.probe_workflow import ACTIVITY_ID


def heartbeat(idle_seconds: float) -> AttemptHeartbeat:
    return AttemptHeartbeat(
        progress=Progress(percent=1, step=1, total_steps=9, phase=Phase.STEP, at=datetime.now(UTC)),
        idle_seconds=idle_seconds,
        checkpoint=None,
        load=0,
    )


class Stuck:
    """An activity that says these details for ever."""

    def __init__(self, *details: Any) -> None:
        self._details = details
        self.started, self.let_go = asyncio.Event(), asyncio.Event()

    @activity.defn(name="stuck")
    async def stuck(self, _: Any) -> None:
        self.started.set()
        while not self.let_go.is_set():
            if self._details:
                activity.heartbeat(*self._details)
            await asyncio.sleep(0.05)


async def idle_seconds(
    client: Client, workflow_id: str, activity_id: str = ACTIVITY_ID
) -> float | None:
    handle = client.get_workflow_handle(workflow_id)
    run_id = (await handle.describe()).run_id
    look = ReadIdleInput(workflow_id=workflow_id, run_id=run_id, activity_id=activity_id)
    return await ActivityEnvironment().run(WatchdogActivities(client).read_idle_seconds, look)


async def test_the_time_of_the_last_step_counts_and_not_the_heartbeats(client: Client) -> None:
    stuck = Stuck(heartbeat(idle_seconds=70))
    async with probing(client, stuck.stuck) as probe:
        handle = await probe.start("stuck")
        idle = None
        async with asyncio.timeout(10):
            while idle is None:
                idle = await idle_seconds(client, handle.id)
        assert 70 <= idle < 75
        assert await idle_seconds(client, handle.id, "attempt-2") is None
        stuck.let_go.set()
        await result_of(handle)
        assert await idle_seconds(client, handle.id) is None


async def test_an_attempt_that_never_said_anything_is_not_judged(client: Client) -> None:
    stuck = Stuck()
    async with probing(client, stuck.stuck) as probe:
        handle = await probe.start("stuck")
        await stuck.started.wait()
        assert await idle_seconds(client, handle.id) is None
        stuck.let_go.set()
        await result_of(handle)


async def test_a_job_that_is_not_there_is_an_error(client: Client) -> None:
    look = ReadIdleInput(workflow_id="job-none", run_id="", activity_id=ACTIVITY_ID)
    with pytest.raises(RPCError):
        await ActivityEnvironment().run(WatchdogActivities(client).read_idle_seconds, look)
