"""What listeners cost, and what becomes of them when either end goes away."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionDescription,
    WorkflowHistoryEventAsyncIterator,
)
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RetryConfig

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.activities.outage import relaying_to
from tests.api.contract import problem
from tests.api.stage import hold, paint, read_when, working
from tests.api.streams import (
    Event,
    Serving,
    create,
    events_in,
    ids,
    listen_to,
    opened,
    serving,
    transitions,
)
from tests.processes import until
from workflows.messages import ImageJobInput
from workflows.submission import start_job

LISTENERS = 200


class Counting(Interceptor):
    """Counts what a client asks Temporal about jobs."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        """See `Interceptor`."""
        return _CountingOutbound(next, self.calls)


class _CountingOutbound(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, calls: Counter[str]) -> None:
        super().__init__(next)
        self._calls = calls

    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
        self._calls["describe"] += 1
        return await super().describe_workflow(input)

    def fetch_workflow_history_events(
        self, input: FetchWorkflowHistoryEventsInput
    ) -> WorkflowHistoryEventAsyncIterator:
        self._calls["history"] += 1
        return super().fetch_workflow_history_events(input)


async def begun(stack: AsyncExitStack, http: httpx.AsyncClient, job_id: str) -> httpx.Response:
    """A stream that was answered, and goes on."""
    response = await stack.enter_async_context(opened(http, job_id))
    assert response.status_code == 200
    return response


async def status_of(http: httpx.AsyncClient, job_id: str) -> int:
    async with opened(http, job_id) as response:
        return response.status_code


async def all_of(response: httpx.Response) -> list[Event]:
    return [event async for event in events_in(response)]


@asynccontextmanager
async def over_a_relay(
    client: Client, store: LocalArtifactStore, engine: str, address: str
) -> AsyncIterator[Serving]:
    """The API, with a way to Temporal that can be cut."""
    own = await Client.connect(
        address,
        data_converter=pydantic_data_converter,
        retry_config=RetryConfig(max_elapsed_time_millis=100),
    )
    async with serving(create_app(own, store, ApiSettings(engines=engine))) as served:
        yield served


async def test_many_listeners_cost_temporal_no_more_than_one(
    client: Client, store: LocalArtifactStore, engine: str
) -> None:
    counting = Counting()
    config: Any = client.config() | {"interceptors": [counting]}
    counted = Client(**config)
    async with (
        serving(create_app(counted, store, ApiSettings(engines=engine))) as served,
        AsyncExitStack() as stack,
    ):
        job_id = await create(served.http)
        first = await begun(stack, served.http, job_id)
        before = counting.calls.total()
        # The time that a client takes to find a connection grows with the square of their number.
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=served.http.base_url, timeout=30)
            )
            for _ in range(10)
        ]
        others = [begun(stack, clients[n % 10], job_id) for n in range(LISTENERS - 1)]
        responses = [first, *await asyncio.gather(*others)]
        reading = [asyncio.create_task(all_of(response)) for response in responses]
        go = asyncio.Event()
        async with working(client, engine, hold(go, paint(store))):
            async with opened(served.http, job_id) as another:
                async for event in events_in(another):
                    if event.kind == "progress":
                        go.set()
            heard = await asyncio.gather(*reading)
        assert {tuple(ids(events)) for events in heard} == {(1, 2)}
        await until(lambda: served.watches() == 0)
    # One listener's looks: a few, and two a second while the job is at work.
    assert counting.calls.total() - before < LISTENERS


async def test_client_that_vanishes_leaves_nothing_behind(served: Serving) -> None:
    job_id = await create(served.http)
    before = asyncio.all_tasks()
    async with AsyncExitStack() as stack:
        for _ in range(20):
            await begun(stack, served.http, job_id)
        assert served.watches() == 1
        assert asyncio.all_tasks() > before
    await until(lambda: not asyncio.all_tasks() - before)


async def test_client_that_reads_late_misses_nothing_and_holds_nobody_up(
    served: Serving, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    go = asyncio.Event()
    async with (
        working(client, engine, hold(go, paint(store))),
        AsyncExitStack() as stack,
    ):
        job_id = await create(served.http)
        slow = await begun(stack, served.http, job_id)
        quick = asyncio.create_task(listen_to(served.http, job_id))
        await read_when(served.http, job_id, "PROCESSING")
        go.set()
        assert ids(await quick) == [1, 2]
        assert ids(await all_of(slow)) == [1, 2]


async def test_outage_in_the_middle_loses_nothing(
    client: Client, store: LocalArtifactStore, engine: str
) -> None:
    host, _, port = client.service_client.config.target_host.partition(":")
    async with AsyncExitStack() as way, AsyncExitStack() as stack:
        address = await way.enter_async_context(relaying_to(host, int(port)))
        served = await stack.enter_async_context(over_a_relay(client, store, engine, address))
        job_id = await create(served.http)
        listening = await begun(stack, served.http, job_id)
        await way.aclose()
        async with asyncio.timeout(60):
            # Until then, they join those who listen.
            while await status_of(served.http, job_id) != 503:
                pass
        problem(await served.http.get(f"/v1/jobs/{job_id}/events"), 503, "TEMPORAL_UNAVAILABLE")
        async with working(client, engine, paint(store)):
            handle = client.get_workflow_handle(f"job-{job_id}")
            await asyncio.wait_for(handle.result(), timedelta(seconds=20).total_seconds())
        async with relaying_to(host, int(port), int(address.rpartition(":")[2])):
            heard = await asyncio.wait_for(all_of(listening), 60)
            assert ids(heard) == [1, 2]
            assert transitions(await listen_to(served.http, job_id)) == transitions(heard)
        await stack.aclose()


async def test_streams_end_when_the_process_does(served: Serving) -> None:
    job_id = await create(served.http)
    async with AsyncExitStack() as stack:
        responses = [await begun(stack, served.http, job_id) for _ in range(3)]
        served.stop()
        # A stream that was cut and not ended would raise here.
        assert [await all_of(response) for response in responses] == [[], [], []]
    await until(lambda: served.watches() == 0)


async def test_another_tenants_job_is_not_there(
    served: Serving, client: Client, engine: str
) -> None:
    request = ImageJobInput.model_validate(
        {"tenant": "another", "engine": engine, "parameters": {"prompt": "a", "seed": 1}}
    )
    handle = await start_job(client, f"other-{engine}", request)
    response = await served.http.get(f"/v1/jobs/other-{engine}/events")
    problem(response, 404, "JOB_NOT_FOUND")
    await handle.terminate(reason="the test is over")
