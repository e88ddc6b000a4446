"""Each tenant's share: its settings, what it may ask for, and what its jobs are started with."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.errors import ErrorKind
from activities.settings import SettingsError
from api.app import create_app
from api.settings import ApiSettings
from api.shares import Share
from tests.api.conftest import asking
from tests.api.contract import job, problem, refused_fields
from tests.api.stage import deciding, paint, read_until, read_when, removing, working
from tests.api.tenants import asking_as, key_for
from tests.workflows.behaviours import fail_with
from workflows.names import workflow_id_for

ACCEPTED = {"label_terms_accepted": True}


def shares(weights: str = "", highest: str = "") -> ApiSettings:
    """What an API process is told."""
    return ApiSettings.from_environ(
        {"DARKROOM_TENANT_WEIGHTS": weights, "DARKROOM_TENANT_MAX_PRIORITY": highest}
    )


@pytest.fixture
async def capped(
    client: Client, store: LocalArtifactStore, engine: str
) -> AsyncIterator[httpx.AsyncClient]:
    """The API where the only tenant has priorities up to 3, and a weight of 2.5."""
    settings = ApiSettings(
        engines=engine, tenant_weights="default=2.5", tenant_max_priority="default=3"
    )
    async with asking(create_app(client, store, settings)) as api:
        yield api


async def create(api: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    return job(await api.post("/v1/jobs", json={"prompt": "a"} | fields), 202)


async def weight_of(client: Client, job_id: str) -> float:
    """What Temporal was told of a job's tenant."""
    handle = client.get_workflow_handle(workflow_id_for(job_id))
    async for event in handle.fetch_history_events():
        weight: float = event.workflow_execution_started_event_attributes.priority.fairness_weight
        return weight
    raise AssertionError("a workflow has a first event")


async def refused_priority(response: httpx.Response, pointer: str = "#/priority") -> None:
    assert refused_fields(response) == {pointer}
    [fault] = response.json()["errors"]
    assert fault["detail"] == "must be 0 to 3: 3 is the highest priority of this tenant's"


def test_tenants_have_weights_and_a_highest_priority() -> None:
    told = shares(" alice=3, bob=0.5 ,", "bob=5,*=7,carol=0").shares
    assert told.of("alice") == Share(3.0, 7)
    assert told.of("bob") == Share(0.5, 5)
    assert told.of("carol") == Share(1.0, 0)
    assert told.of("anybody") == Share(1.0, 7)
    assert shares().shares.of("anybody") == Share(1.0, 9)


@pytest.mark.parametrize("weight", ["0.001", "1000", "1000.000", "2", "0.333"])
def test_weight_within_temporals_bounds_is_taken(weight: str) -> None:
    assert shares(f"a.b@c:d-e_f={weight}").shares.of("a.b@c:d-e_f").weight == float(weight)


@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        *(
            ("WEIGHTS", f"alice={weight}", "the weight of alice must be 0.001 to 1000")
            for weight in (
                "0",
                "0.0001",
                "1000.001",
                "-1",
                "nan",
                "inf",
                "1e3",
                "x",
                "",
                "1_0",
                "٣",
            )
        ),
        ("WEIGHTS", "alice", "'alice' is not `tenant=number`"),
        ("WEIGHTS", "alice=1,alice=2", "alice is named twice"),
        ("WEIGHTS", "*=2", "'*' can be no tenant's name"),
        ("WEIGHTS", "=2", "'' can be no tenant's name"),
        *(
            ("MAX_PRIORITY", f"bob={value}", "the priority of bob must be 0 to 9")
            for value in ("10", "-1", "5.0", "x", "", "٣")
        ),
        ("MAX_PRIORITY", "7", "'7' is not `tenant=number`"),
        ("MAX_PRIORITY", "*=7,*=8", "* is named twice"),
        ("MAX_PRIORITY", "b b=7", "'b b' can be no tenant's name"),
    ],
)
def test_setting_of_no_use_is_refused_by_name(variable: str, value: str, wanted: str) -> None:
    name = f"DARKROOM_TENANT_{variable}"
    with pytest.raises(SettingsError) as caught:
        ApiSettings.from_environ({name: value})
    assert str(caught.value).startswith(f"{name}: {wanted}")
    assert "\n" not in str(caught.value)


async def test_higher_priority_than_the_tenants_is_refused_wherever_it_can_be_said(
    capped: httpx.AsyncClient,
) -> None:
    high = {"prompt": "a", "priority": 4}
    await refused_priority(await capped.post("/v1/jobs", json=high))
    await refused_priority(await capped.post("/api/task/submit", json=high))
    await refused_priority(await capped.patch("/v1/jobs/x", json={"priority": 4}))
    removal = ACCEPTED | {"priority": 9}
    await refused_priority(await capped.post("/v1/jobs/x/watermark-removal", json=removal))


async def test_item_of_a_batch_is_refused_by_itself(capped: httpx.AsyncClient) -> None:
    items = [{"prompt": "a", "priority": priority} for priority in (3, 5)]
    answer = await capped.post("/v1/batches", json={"jobs": items})
    good, bad = answer.json()["results"]
    assert (good["status"], good["job"]["priority"]) == (202, 3)
    assert (bad["status"], bad["job"]) == (422, None)
    assert bad["problem"]["errors"][0]["pointer"] == "#/jobs/1/priority"
    assert "must be 0 to 3" in bad["problem"]["errors"][0]["detail"]


async def test_tenant_with_the_lowest_priority_alone_is_told_so(
    client: Client, store: LocalArtifactStore
) -> None:
    settings = ApiSettings(tenant_max_priority="*=0")
    async with asking(create_app(client, store, settings)) as api:
        refused = await api.post("/v1/jobs", json={"prompt": "a", "priority": 1})
        assert problem(refused, 422, "INVALID_REQUEST")["errors"][0]["detail"].startswith(
            "must be 0:"
        )
        assert (await create(api))["priority"] == 0


async def test_job_that_names_no_priority_has_the_highest_allowed_below_the_default(
    capped: httpx.AsyncClient, client: Client
) -> None:
    told = await create(capped)
    assert (told["priority"], told["request"]["priority"]) == (3, 3)
    assert "fairness_weight" not in told["request"]
    assert await weight_of(client, told["id"]) == 2.5


async def test_tenants_are_told_apart_by_their_keys(
    client: Client, store: LocalArtifactStore
) -> None:
    app = create_app(client, store, shares("ben=3", "anne=4"))
    keys = [await key_for(store, tenant) for tenant in ("anne", "ben")]
    async with asking_as(app, keys[0]) as anne, asking_as(app, keys[1]) as ben:
        assert refused_fields(await anne.post("/v1/jobs", json={"prompt": "a", "priority": 9})) == {
            "#/priority"
        }
        told = await create(ben, priority=9)
        assert told["priority"] == 9
        assert await weight_of(client, told["id"]) == 3
        assert await weight_of(client, (await create(anne))["id"]) == 1


async def test_another_try_has_no_higher_priority_than_the_tenant_by_now(
    api: httpx.AsyncClient, capped: httpx.AsyncClient, client: Client, engine: str
) -> None:
    async with working(client, engine, fail_with(ErrorKind.CONTENT_REJECTED)):
        job_id = (await create(api, priority=9))["id"]
        await read_when(api, job_id, "FAILED")
    url, key = f"/v1/jobs/{job_id}/retry", {"idempotency-key": f"again-{engine}"}
    first = job(await api.post(url, headers=key), 202)
    # The same intent, whatever the tenant may have by now.
    assert job(await capped.post(url, headers=key), 202)["id"] == first["id"]
    again = job(await capped.post(url), 202)
    assert (first["priority"], again["priority"]) == (9, 3)
    assert await weight_of(client, again["id"]) == 2.5


async def test_removal_inherits_the_weight_and_the_priority_in_force(
    capped: httpx.AsyncClient, client: Client, engine: str, store: LocalArtifactStore
) -> None:
    async with deciding(client):
        asked = ACCEPTED | {"watermark": "remove", "priority": 3}
        job_id = (await create(capped, **asked))["id"]
        job(await capped.patch(f"/v1/jobs/{job_id}", json={"priority": 1}), 200)
    async with working(client, engine, paint(store)), removing(client, paint(store, "white")):
        told = await read_until(capped, job_id, lambda told: told["chain"] == "FINALIZED")
    successor = job(await capped.get(f"/v1/jobs/{told['successor_id']}"), 200)
    assert successor["priority"] == 1
    assert await weight_of(client, successor["id"]) == 2.5


async def test_removal_that_is_asked_for_later_has_what_the_tenant_may_have_by_then(
    api: httpx.AsyncClient,
    capped: httpx.AsyncClient,
    client: Client,
    engine: str,
    store: LocalArtifactStore,
) -> None:
    async with working(client, engine, paint(store)):
        first, second = [(await create(api, priority=9))["id"] for _ in range(2)]
        await asyncio.gather(*(read_when(api, job_id, "SUCCESS") for job_id in (first, second)))
    for job_id, asked, priority in ((first, {}, 3), (second, {"priority": 2}, 2)):
        url = f"/v1/jobs/{job_id}/watermark-removal"
        removal = job(await capped.post(url, json=ACCEPTED | asked), 202)
        assert removal["priority"] == priority
        assert await weight_of(client, removal["id"]) == 2.5
