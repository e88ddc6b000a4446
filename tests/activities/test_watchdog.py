"""What the watchdog sees of a running attempt, on a real server."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment

from activities.models import AttemptHeartbeat, Phase, Progress
from activities.watchdog import ReadIdleInput, WatchdogActivities, silence_seconds
from tests.activities.probe import probing, result_of
from tests.activities.probe_workflow import ACTIVITY_ID

HEARTBEAT_TIMEOUT_SECONDS = 4.0


def heartbeat(idle_seconds: float, *, has_moved: bool = True) -> AttemptHeartbeat:
    return AttemptHeartbeat(
        progress=Progress(percent=1, step=1, total_steps=9, phase=Phase.STEP, at=datetime.now(UTC)),
        idle_seconds=idle_seconds,
        checkpoint=None,
        load=0,
        has_moved=has_moved,
    )


def look_at(
    workflow_id: str, run_id: str, activity_id: str = ACTIVITY_ID, idle_before: float = 0
) -> ReadIdleInput:
    return ReadIdleInput(
        workflow_id=workflow_id,
        run_id=run_id,
        activity_id=activity_id,
        heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_SECONDS,
        idle_before_seconds=idle_before,
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
    client: Client, workflow_id: str, activity_id: str = ACTIVITY_ID, idle_before: float = 0
) -> float | None:
    handle = client.get_workflow_handle(workflow_id)
    run_id = (await handle.describe()).run_id
    look = look_at(workflow_id, run_id, activity_id, idle_before)
    return await ActivityEnvironment().run(WatchdogActivities(client).read_idle_seconds, look)


async def until_heard(client: Client, workflow_id: str, idle_before: float, least: float) -> float:
    """Look again until the first heartbeat is in."""
    idle = None
    async with asyncio.timeout(10):
        while idle is None or idle < least:
            idle = await idle_seconds(client, workflow_id, idle_before=idle_before)
    return idle


async def test_the_time_of_the_last_step_counts_and_not_the_heartbeats(client: Client) -> None:
    stuck = Stuck(heartbeat(idle_seconds=70))
    async with probing(client, stuck.stuck) as probe:
        handle = await probe.start("stuck")
        assert 70 <= await until_heard(client, handle.id, idle_before=5, least=70) < 75
        assert await idle_seconds(client, handle.id, "attempt-2") is None
        stuck.let_go.set()
        await result_of(handle)
        assert await idle_seconds(client, handle.id) is None


async def test_an_attempt_that_has_not_moved_adds_to_what_its_job_was_idle_before(
    client: Client,
) -> None:
    stuck = Stuck(heartbeat(idle_seconds=70, has_moved=False))
    async with probing(client, stuck.stuck) as probe:
        handle = await probe.start("stuck")
        assert 170 <= await until_heard(client, handle.id, idle_before=100, least=170) < 175
        stuck.let_go.set()
        await result_of(handle)


async def test_an_attempt_that_never_said_anything_has_not_moved(client: Client) -> None:
    stuck = Stuck()
    async with probing(client, stuck.stuck) as probe:
        handle = await probe.start("stuck")
        await stuck.started.wait()
        idle = await idle_seconds(client, handle.id, idle_before=100)
        assert idle is not None
        assert 100 <= idle < 105
        stuck.let_go.set()
        await result_of(handle)


@pytest.mark.parametrize(("ahead", "silence"), [(-3600, 0), (0, 0), (1.5, 1.5), (3600, 4)])
def test_clocks_that_differ_make_no_silence_longer_than_an_attempt_can_have(
    ahead: float, silence: float
) -> None:
    heard_at = datetime(2026, 1, 1, tzinfo=UTC)
    now = heard_at + timedelta(seconds=ahead)
    assert silence_seconds(heard_at, now, HEARTBEAT_TIMEOUT_SECONDS) == silence


async def test_a_job_that_is_not_there_is_an_error(client: Client) -> None:
    look = look_at("job-none", "")
    with pytest.raises(RPCError):
        await ActivityEnvironment().run(WatchdogActivities(client).read_idle_seconds, look)
