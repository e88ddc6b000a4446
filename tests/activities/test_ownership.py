"""Claims and confirmations, against a real server."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RetryConfig
from temporalio.testing import ActivityEnvironment

from activities.models import AttemptHeartbeat, Phase, Progress
from activities.ownership import Grant, JobLostError, TemporalOwnership
from tests.activities.outage import relaying_to
from tests.activities.probe import Probe, probing, result_of
from tests.activities.probe_workflow import REFUSED_DISPATCH, ProbeWorkflow

HEARTBEAT = AttemptHeartbeat(
    progress=Progress(percent=1, step=1, total_steps=9, phase=Phase.STEP, at=datetime.now(UTC)),
    idle_seconds=0,
    checkpoint=None,
    load=0,
)


class Asking:
    """An activity that asks when it is let go, and tells how it was answered."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self._ask = ask
        self.started, self.let_go, self.cancelled = (asyncio.Event() for _ in range(3))

    @activity.defn(name="ask")
    async def ask(self, _: Any) -> str:
        self.started.set()
        beating = asyncio.create_task(self._beat())
        try:
            # Cancelled, it still asks: the test wants to know the answer.
            while not self.let_go.is_set():
                try:
                    await self.let_go.wait()
                except asyncio.CancelledError:
                    self.cancelled.set()
            await self._ask()
        except JobLostError as error:
            return f"lost: {error}"
        finally:
            beating.cancel()
        return "owner"

    async def _beat(self) -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(0.1)


def claiming(client: Client, dispatch: int = 1) -> Asking:
    ownership = TemporalOwnership(client)

    async def claim() -> None:
        await ownership.claim(dispatch)

    return Asking(claim)


def confirming(client: Client) -> Asking:
    ownership = TemporalOwnership(client)
    return Asking(lambda: ownership.confirm(HEARTBEAT))


async def test_a_claim_that_is_granted_is_made_once(client: Client) -> None:
    ownership = TemporalOwnership(client)

    async def twice() -> None:
        await ownership.claim(1)
        await ownership.claim(1)

    asking = Asking(twice)
    asking.let_go.set()
    async with probing(client, asking.ask) as probe:
        handle = await probe.start("ask")
        assert await result_of(handle) == "owner"
        assert await handle.query(ProbeWorkflow.claims) == [1]


async def test_a_grant_tells_temporals_time(client: Client) -> None:
    grants: list[Grant] = []
    ownership = TemporalOwnership(client)

    async def claim() -> None:
        grants.append(await ownership.claim(1))

    asking = Asking(claim)
    asking.let_go.set()
    async with probing(client, asking.ask) as probe:
        handle = await probe.start("ask")
        assert await result_of(handle) == "owner"
        [grant], described = grants, await handle.describe()
    assert described.close_time is not None
    assert grant.at is not None
    assert described.start_time <= grant.at <= described.close_time
    latest = grant.latest()
    assert latest is not None
    assert grant.at < grant.earliest() < latest


@pytest.mark.parametrize(
    ("granted_after", "latest_is_after"),
    [
        # An earlier ask was granted, and its answer was lost.
        (1, 10),
        # This one was granted.
        (6, 11),
        # Temporal's clock was set back: nothing better is known than when the first one was asked.
        (-3600, 10 - 3600),
    ],
)
def test_a_grant_is_told_rather_late_than_early(granted_after: int, latest_is_after: int) -> None:
    started_at = datetime(2026, 11, 30, tzinfo=UTC)
    now = time.monotonic()
    granted_at = started_at + timedelta(seconds=granted_after)
    grant = Grant.of(granted_at, asked=now - 5, begun=now - 10, started_at=started_at)
    latest = grant.latest()
    assert latest is not None
    assert latest >= started_at + timedelta(seconds=latest_is_after)
    assert grant.earliest() >= granted_at
    assert Grant.of(None, now - 5, now - 10, started_at).latest() is None


async def test_a_refused_claim_loses_the_job_with_the_reason(client: Client) -> None:
    asking = claiming(client, REFUSED_DISPATCH)
    asking.let_go.set()
    async with probing(client, asking.ask) as probe:
        handle = await probe.start("ask")
        assert await result_of(handle) == "lost: another attempt has taken over"


async def test_a_claim_of_a_job_that_is_over_loses_it(client: Client) -> None:
    told: list[str] = []
    asking = claiming(client)

    @activity.defn(name="ask")
    async def ask(argument: Any) -> None:
        told.append(await asking.ask(argument))

    async with probing(client, ask) as probe:
        handle = await probe.start("ask")
        await asking.started.wait()
        await handle.signal(ProbeWorkflow.wish, "close")
        await result_of(handle)
        asking.let_go.set()
    assert told == ["lost: the job is over"]


async def test_a_claim_waits_until_a_workflow_worker_is_there(client: Client) -> None:
    asking = claiming(client)
    probe = Probe(client, f"probe-{uuid4()}", f"probe-work-{uuid4()}")
    async with probe.activity_worker([asking.ask]):
        async with probe.workflow_worker():
            handle = await probe.start("ask")
            await asking.started.wait()
        asking.let_go.set()
        with pytest.raises(TimeoutError):
            await result_of(handle, seconds=1)
        async with probe.workflow_worker():
            assert await result_of(handle) == "owner"


async def test_a_claim_that_waits_ends_at_once_when_it_is_cancelled(client: Client) -> None:
    unserved = Probe(client, f"probe-{uuid4()}", f"probe-work-{uuid4()}")
    handle = await unserved.start("ask")
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_id=handle.id, workflow_run_id=None)
    claim = asyncio.create_task(environment.run(TemporalOwnership(client).claim, 1))
    await asyncio.wait([claim], timeout=0.3)
    claim.cancel()
    _, pending = await asyncio.wait([claim], timeout=2)
    assert not pending
    assert claim.cancelled()


async def test_an_attempt_that_runs_is_confirmed(client: Client) -> None:
    asking = confirming(client)
    asking.let_go.set()
    async with probing(client, asking.ask) as probe:
        assert await result_of(await probe.start("ask")) == "owner"


async def test_an_attempt_that_was_asked_to_stop_still_owns_its_job(client: Client) -> None:
    asking = confirming(client)
    async with probing(client, asking.ask) as probe:
        handle = await probe.start("ask")
        await asking.started.wait()
        await handle.signal(ProbeWorkflow.wish, "pause")
        await asking.cancelled.wait()
        asking.let_go.set()
        assert await result_of(handle) == "owner"


async def test_an_attempt_whose_job_is_over_is_not_confirmed(client: Client) -> None:
    told: list[str] = []
    asking = confirming(client)

    @activity.defn(name="ask")
    async def ask(argument: Any) -> None:
        told.append(await asking.ask(argument))

    async with probing(client, ask) as probe:
        handle = await probe.start("ask")
        await asking.started.wait()
        await handle.signal(ProbeWorkflow.wish, "close")
        await result_of(handle)
        asking.let_go.set()
    assert told == ["lost: the job was given to another attempt, or is over"]


@pytest.fixture
async def nowhere(client: Client) -> Client:
    """A client whose server went out of reach after it had connected."""
    host, _, port = client.service_client.config.target_host.partition(":")
    async with relaying_to(host, int(port)) as address:
        return await Client.connect(
            address,
            data_converter=pydantic_data_converter,
            retry_config=RetryConfig(max_elapsed_time_millis=100, max_retries=1),
        )


async def test_a_job_is_not_given_up_because_temporal_is_out_of_reach(nowhere: Client) -> None:
    await ActivityEnvironment().run(TemporalOwnership(nowhere).confirm, HEARTBEAT)


async def test_a_claim_goes_on_asking_while_temporal_is_out_of_reach(nowhere: Client) -> None:
    claim = asyncio.create_task(ActivityEnvironment().run(TemporalOwnership(nowhere).claim, 1))
    _, pending = await asyncio.wait([claim], timeout=1.5)
    assert pending
    claim.cancel()
    await asyncio.wait([claim], timeout=2)
    assert claim.cancelled()
