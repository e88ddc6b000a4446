"""Limits: of requests per tenant, of strangers per address, and of jobs that wait."""

import asyncio
from uuid import uuid4

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.callers import Caller
from api.limits import RequestLimit, StrangerLimit, TokenBuckets, network_of
from api.links import Links
from api.refusals import RateLimited
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import job, problem
from tests.api.tenants import asking_as, key_for


class Clock:
    """A clock that stands until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_bucket_gives_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    buckets = TokenBuckets(rate=2, burst=3, clock=clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    clock.now += 0.5
    assert (buckets.take("a"), buckets.take("a")) == (0, 0.5)
    clock.now += 1_000_000
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_longest_unused_bucket_is_forgotten_first() -> None:
    buckets = TokenBuckets(rate=1, burst=1, clock=Clock(), most=2)
    assert [buckets.take(name) for name in ("a", "b", "a", "c")] == [0, 0, 1, 0]
    assert (buckets.wait_seconds("a"), buckets.wait_seconds("b")) == (1, 0)


def test_tenants_do_not_use_up_each_others_requests() -> None:
    limit = RequestLimit(per_second=0.5, clock=Clock())
    limit.count(Caller("anne"))
    with pytest.raises(RateLimited) as refused:
        limit.count(Caller("anne"))
    assert refused.value.headers == {"Retry-After": "2"}
    limit.count(Caller("bob"))
    limit.count(Caller(linked_job="x"))


def test_no_limit_is_no_limit() -> None:
    limit = RequestLimit(per_second=0, clock=Clock())
    for _ in range(5000):
        limit.count(Caller("anne"))


def test_who_fails_too_often_waits_and_others_do_not() -> None:
    clock = Clock()
    limit = StrangerLimit(clock)
    for _ in range(20):
        limit.failed("192.0.2.1")
    with pytest.raises(RateLimited):
        limit.failed("192.0.2.1")
    limit.failed("192.0.2.2")
    clock.now += 1
    limit.failed("192.0.2.1")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "", True),
        ("x" * 1000, "x" * 64, True),
    ],
)
def test_party_is_an_address_or_a_network(one: str, other: str, is_same: bool) -> None:
    assert (network_of(one) == network_of(other)) is is_same


async def test_tenant_with_too_many_requests_is_told_when_to_come_back(
    client: Client, store: LocalArtifactStore
) -> None:
    keys = [await key_for(store, tenant) for tenant in ("anne", "bob")]
    app = create_app(client, store, ApiSettings(tenant_requests_per_second=0.001))
    async with asking_as(app, keys[0]) as anne, asking_as(app, keys[1]) as bob:
        problem(await anne.get("/v1/jobs/x"), 404, "JOB_NOT_FOUND")
        refused = await anne.post("/v1/jobs", json={"prompt": "a"})
        problem(refused, 429, "RATE_LIMITED")
        assert int(refused.headers["retry-after"]) > 900
        problem(await bob.get("/v1/jobs/x"), 404, "JOB_NOT_FOUND")
        assert (await anne.get("/healthz")).status_code == 200


async def test_only_so_many_jobs_of_a_tenant_wait(
    deserted_client: Client, store: LocalArtifactStore
) -> None:
    names = [f"{name}-{uuid4().hex[:8]}" for name in ("anne", "bob")]
    keys = [await key_for(store, name) for name in names]
    settings = ApiSettings(tenant_max_waiting=3)
    app, other = (create_app(deserted_client, store, settings) for _ in range(2))
    async with (
        asking_as(app, keys[0]) as anne,
        asking_as(app, keys[1]) as bob,
        asking_as(other, keys[0]) as elsewhere,
    ):
        answers = await asyncio.gather(*(post(anne) for _ in range(12)))
        assert sorted(answer.status_code for answer in answers) == [202] * 3 + [429] * 9
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert "3 jobs" in problem(refused, 429, "TOO_MANY_JOBS")["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        job(await post(bob), 202)
        waiting = next(answer for answer in answers if answer.status_code == 202).json()["id"]
        await visible(deserted_client, names[0], 3)
        problem(await post(elsewhere), 429, "TOO_MANY_JOBS")
        await deserted_client.get_workflow_handle(f"job-{waiting}").terminate()
        async with asyncio.timeout(20):
            while (await post(anne)).status_code != 202:
                await asyncio.sleep(0.1)


async def test_only_so_many_bulks_of_a_tenant_are_open(
    deserted_client: Client, store: LocalArtifactStore
) -> None:
    keys = [await key_for(store, f"{name}-{uuid4().hex[:8]}") for name in ("anne", "bob")]
    settings = ApiSettings(tenant_max_bulks=3)
    app, other = (create_app(deserted_client, store, settings) for _ in range(2))
    async with (
        asking_as(app, keys[0]) as anne,
        asking_as(app, keys[1]) as bob,
        asking_as(other, keys[0]) as elsewhere,
    ):
        answers = await asyncio.gather(*(anne.post("/v1/bulk/pause") for _ in range(12)))
        assert sorted(answer.status_code for answer in answers) == [202] * 3 + [429] * 9
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert "3 bulk operations" in problem(refused, 429, "TOO_MANY_BULKS")["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        theirs = [answer.json()["id"] for answer in answers if answer.status_code == 202]
        theirs.append((await bob.post("/v1/bulk/pause")).json()["id"])

        async def is_full() -> bool:
            answer = await elsewhere.post("/v1/bulk/pause")
            if answer.status_code == 202:
                theirs.append(answer.json()["id"])
            return answer.status_code == 429

        async with asyncio.timeout(20):
            while not await is_full():
                await asyncio.sleep(0.1)
            for bulk_id in theirs:
                await deserted_client.get_workflow_handle(f"bulk-{bulk_id}").terminate()
            while (last := await anne.post("/v1/bulk/pause")).status_code != 202:
                await asyncio.sleep(0.1)
    await deserted_client.get_workflow_handle(f"bulk-{last.json()['id']}").terminate()


async def test_request_that_is_refused_takes_no_room(
    deserted_client: Client, store: LocalArtifactStore
) -> None:
    key = await key_for(store, f"anne-{uuid4().hex[:8]}")
    app = create_app(deserted_client, store, ApiSettings(tenant_max_waiting=1))
    async with asking_as(app, key) as anne:
        for _ in range(3):
            problem(await anne.post("/v1/jobs", json={"prompt": ""}), 422, "INVALID_REQUEST")
        job(await post(anne), 202)


async def test_stranger_is_told_to_wait_and_shuts_nobody_out(
    client: Client, store: LocalArtifactStore
) -> None:
    """All at one address: also who has not been let in before is let in with a key or a link."""
    key = await key_for(store, "anne")
    app = create_app(client, store, ApiSettings())
    signer = await Links(store, 3600).signer()
    assert signer is not None
    async with asking_as(app, key) as anne, asking(app) as stranger:
        answers = [await stranger.get("/v1/jobs/x") for _ in range(100)]
        assert {answer.status_code for answer in answers} == {401, 429}
        problem(answers[0], 401, "UNAUTHENTICATED")
        limited = next(answer for answer in answers if answer.status_code == 429)
        problem(limited, 429, "RATE_LIMITED")
        assert int(limited.headers["retry-after"]) >= 1
        problem(await anne.get("/v1/jobs/x"), 404, "JOB_NOT_FOUND")
        link = f"/v1/jobs/x/image?{signer.query('x')}"
        problem(await stranger.get(link), 404, "JOB_NOT_FOUND")
        altered = await stranger.get(f"{link}x")
        problem(altered, 429, "RATE_LIMITED")


async def post(api: httpx.AsyncClient) -> httpx.Response:
    return await api.post("/v1/jobs", json={"prompt": "a"})


async def visible(client: Client, tenant: str, count: int) -> None:
    """Return once visibility, which may be a moment behind, has this many jobs."""
    async with asyncio.timeout(20):
        while (await client.count_workflows(f'JobTenant="{tenant}"')).count != count:
            await asyncio.sleep(0.02)
