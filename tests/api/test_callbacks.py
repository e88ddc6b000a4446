"""Callbacks through the API: from a submit to a real receiver, with what it is signed with."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from standardwebhooks.webhooks import Webhook
from temporalio.client import Client
from temporalio.worker import Worker

from activities.artifacts import LocalArtifactStore
from activities.callbacks.activity import CallbackActivities
from activities.callbacks.book import CallbackBook
from activities.ownership import TemporalOwnership
from api.app import create_app
from api.settings import ApiSettings
from tests.activities.receivers import Received, Receiver, answering, receiving
from tests.api.conftest import asking
from tests.api.contract import job, problem, refused_fields
from tests.api.stage import paint
from tests.api.tenants import asking_as, key_for
from tests.fakes import FakeWork
from workflows.deciding import workflow_worker
from workflows.names import generate_task_queue

Json = dict[str, Any]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(answering(204)) as receiver:
        yield receiver


@pytest.fixture
def app(client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver) -> FastAPI:
    """The API, which lets callbacks go to the receiver of this test."""
    return create_app(client, store, settings_for(engine, receiver))


def settings_for(engine: str, receiver: Receiver) -> ApiSettings:
    return ApiSettings(engines=engine, callback_private_hosts=receiver.authority)


@asynccontextmanager
async def painting(
    client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver
) -> AsyncIterator[None]:
    """Workers that make images and send callbacks."""
    callbacks = CallbackActivities(receiver.rules, CallbackBook(store))
    work = FakeWork(TemporalOwnership(client), paint(store))
    async with (
        workflow_worker(client, [callbacks.send_callback]),
        Worker(client, task_queue=generate_task_queue(engine), activities=[work.generate_image]),
    ):
        yield


async def read_callbacks(api: httpx.AsyncClient, job_id: str) -> list[Json]:
    response = await api.get(f"/v1/jobs/{job_id}/callbacks")
    assert response.status_code == 200, response.text
    told: list[Json] = response.json()["callbacks"]
    return told


async def until_delivered(api: httpx.AsyncClient, job_id: str, attempts: int = 1) -> list[Json]:
    """The callbacks of a job that ends, once each was delivered after so many attempts.

    A job that is not over has told only a part of what it will tell.
    """
    async with asyncio.timeout(30):
        while not job(await api.get(f"/v1/jobs/{job_id}?wait=20"), 200)["done"]:
            pass
        while True:
            told = await read_callbacks(api, job_id)
            ends = [(one["state"], len(one["attempts"])) for one in told]
            if told and set(ends) == {("DELIVERED", attempts)}:
                return told
            await asyncio.sleep(0.02)


async def verified(api: httpx.AsyncClient, received: Received) -> Json:
    """What a receiver makes of it, with the reference library and the tenant's secret."""
    secret = (await api.get("/v1/callback-secret")).json()["secret"]
    told: Json = Webhook(secret).verify(received.body, received.headers)
    return told


async def test_receiver_is_told_of_success_with_a_signature_that_verifies(
    app: FastAPI, client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver
) -> None:
    async with asking(app) as api, painting(client, store, engine, receiver):
        asked = {"prompt": "a", "callback_url": receiver.url("/hook?order=17")}
        started = job(await api.post("/v1/jobs", json=asked), 202)
        [told] = await until_delivered(api, started["id"])
        [received] = receiver.requests
        event = await verified(api, received)
        finished = job(await api.get(f"/v1/jobs/{started['id']}"), 200)
    assert started["request"]["callback_url"] == asked["callback_url"]
    assert (
        started["links"]["callbacks"] == f"http://darkroom.test/v1/jobs/{started['id']}/callbacks"
    )
    assert received.line == "POST /hook?order=17 HTTP/1.1"
    assert received.headers["webhook-id"] == told["id"]
    assert (event["type"], event["data"]["state"]) == ("job.success", "SUCCESS")
    assert event["data"]["result"]["sha256"] == finished["result"]["sha256"]
    address = f"http://darkroom.test/v1/jobs/{started['id']}"
    assert event["data"]["links"]["self"] == address
    assert event["data"]["result"]["image_url"] == f"{address}/image"
    assert len(received.body) < 4096
    [attempt] = told["attempts"]
    assert (attempt["outcome"], attempt["status_code"]) == ("delivered", 204)


async def test_message_that_is_sent_again_has_the_same_id_and_body_and_a_new_signature(
    app: FastAPI, client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver
) -> None:
    async with asking(app) as api, painting(client, store, engine, receiver):
        asked = {"prompt": "a", "callback_url": receiver.url()}
        started = job(await api.post("/v1/jobs", json=asked), 202)
        path = f"/v1/jobs/{started['id']}/callbacks"
        [told] = await until_delivered(api, started["id"])
        response = await api.post(f"{path}/redeliver")
        assert response.status_code == 202
        assert [one["id"] for one in response.json()["callbacks"]] == [told["id"]]
        await until_delivered(api, started["id"], attempts=2)
        assert (await api.post(f"{path}/{told['id']}/redeliver")).status_code == 202
        await until_delivered(api, started["id"], attempts=3)
        first, second, third = receiver.requests
        assert await verified(api, third) == await verified(api, first)
    assert first.body == second.body == third.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_what_there_is_not_can_not_be_sent_again(
    app: FastAPI, client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver
) -> None:
    async with asking(app) as api:
        silent = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        asked = {"prompt": "a", "callback_url": receiver.url()}
        waiting = job(await api.post("/v1/jobs", json=asked), 202)["id"]
        for job_id in (silent, waiting):
            assert await read_callbacks(api, job_id) == []
            refused = await api.post(f"/v1/jobs/{job_id}/callbacks/redeliver")
            problem(refused, 409, "NO_CALLBACK")
            missing = await api.post(f"/v1/jobs/{job_id}/callbacks/{job_id}.1-failed/redeliver")
            problem(missing, 404, "CALLBACK_NOT_FOUND")
        problem(await api.get("/v1/jobs/nobody/callbacks"), 404, "JOB_NOT_FOUND")
    assert receiver.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:10.0.0.1]/",
        "http://2130706433/",
        "http://user:secret@example.com/",
        "https://example.com:22/",
        "ftp://example.com/",
        "example.com",
        "",
    ],
)
async def test_address_that_is_not_allowed_is_refused_by_name_and_starts_nothing(
    deserted: httpx.AsyncClient, started: Any, url: str
) -> None:
    asked = {"prompt": "a", "callback_url": url}
    assert refused_fields(await deserted.post("/v1/jobs", json=asked)) == {"#/callback_url"}
    batch = (await deserted.post("/v1/batches", json={"jobs": [asked]})).json()
    [fault] = batch["results"][0]["problem"]["errors"]
    assert fault["pointer"] == "#/jobs/0/callback_url"
    task = await deserted.post("/api/task/submit", json=asked)
    assert refused_fields(task) == {"#/callback_url"}
    endpoint = await deserted.put("/v1/callback-endpoint", json={"url": url})
    assert refused_fields(endpoint) == {"#/url"}
    assert await started() == 0


async def test_endpoint_of_a_tenant_is_told_of_its_jobs_and_of_nobody_else_s(
    client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver
) -> None:
    keys = [await key_for(store, tenant) for tenant in ("anne", "bert")]
    app = create_app(client, store, settings_for(engine, receiver))
    async with (
        asking_as(app, keys[0]) as anne,
        asking_as(app, keys[1]) as bert,
        painting(client, store, engine, receiver),
    ):
        problem(await anne.get("/v1/callback-endpoint"), 404, "NO_CALLBACK_ENDPOINT")
        endpoint = {"url": receiver.url("/all"), "events": "all"}
        assert (await anne.put("/v1/callback-endpoint", json=endpoint)).json() == endpoint
        assert (await anne.get("/v1/callback-endpoint")).json() == endpoint
        problem(await bert.get("/v1/callback-endpoint"), 404, "NO_CALLBACK_ENDPOINT")
        own = {"prompt": "a", "callback_url": receiver.url("/own")}
        his = job(await bert.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        hers = job(await anne.post("/v1/jobs", json=own), 202)["id"]
        told = await until_delivered(anne, hers)
        assert await read_callbacks(bert, his) == []
        for method, path in (("GET", ""), ("POST", "/redeliver"), ("POST", f"/{hers}.1/redeliver")):
            answer = await bert.request(method, f"/v1/jobs/{hers}/callbacks{path}")
            problem(answer, 404, "JOB_NOT_FOUND")
        secrets = {(await api.get("/v1/callback-secret")).text for api in (anne, bert)}
        assert len(secrets) == 2
        events = [await verified(anne, received) for received in receiver.requests]
    assert [(one["receiver"], one["type"], one["url"]) for one in told] == [
        ("endpoint", "job.processing", None),
        ("url", "job.success", own["callback_url"]),
        ("endpoint", "job.success", None),
    ]
    assert {event["data"]["id"] for event in events} == {hers}
    paths = sorted(received.line.split()[1] for received in receiver.requests)
    assert paths == ["/all", "/all", "/own"]


async def test_endpoint_that_is_removed_is_told_nothing_more(
    app: FastAPI, client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver
) -> None:
    async with asking(app) as api:
        await api.put("/v1/callback-endpoint", json={"url": receiver.url()})
        before = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        for _ in range(2):
            assert (await api.delete("/v1/callback-endpoint")).status_code == 204
        after = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        async with painting(client, store, engine, receiver):
            async with asyncio.timeout(30):
                while [one["state"] for one in await read_callbacks(api, before)] != ["STOPPED"]:
                    await asyncio.sleep(0.02)
                while not job(await api.get(f"/v1/jobs/{after}?wait=20"), 200)["done"]:
                    pass
        assert await read_callbacks(api, after) == []
    assert receiver.connections == 0


async def test_rotated_secret_and_the_one_before_both_verify(
    app: FastAPI, client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver
) -> None:
    async with asking(app) as api, painting(client, store, engine, receiver):
        old = (await api.get("/v1/callback-secret")).json()["secret"]
        new = (await api.post("/v1/callback-secret/rotate")).json()["secret"]
        assert new != old
        response = await api.get("/v1/callback-secret")
        assert response.json()["secret"] == new
        assert response.headers["cache-control"] == "no-store"
        asked = {"prompt": "a", "callback_url": receiver.url()}
        started = job(await api.post("/v1/jobs", json=asked), 202)
        await until_delivered(api, started["id"])
    [received] = receiver.requests
    for secret in (old, new):
        Webhook(secret).verify(received.body, received.headers)


async def test_secret_can_not_be_rotated_without_end(app: FastAPI) -> None:
    async with asking(app) as api:
        answers = [await api.post("/v1/callback-secret/rotate") for _ in range(12)]
        statuses = [answer.status_code for answer in answers]
        assert statuses == sorted(statuses)
        problem(answers[-1], 409, "ROTATED_TOO_OFTEN")
        shown = (await api.get("/v1/callback-secret")).json()
    assert shown == answers[statuses.index(409) - 1].json()


async def test_retry_and_removal_tell_the_same_receiver(
    app: FastAPI, client: Client, store: LocalArtifactStore, engine: str, receiver: Receiver
) -> None:
    async with asking(app) as api:
        asked = {"prompt": "a", "callback_url": receiver.url()}
        first = job(await api.post("/v1/jobs", json=asked), 202)["id"]
        await api.post(f"/v1/jobs/{first}/cancel")
        async with painting(client, store, engine, receiver):
            await until_delivered(api, first)
            again = job(await api.post(f"/v1/jobs/{first}/retry"), 202)["id"]
            await until_delivered(api, again)
            terms = {"label_terms_accepted": True}
            removal = job(await api.post(f"/v1/jobs/{again}/watermark-removal", json=terms), 202)
            await api.post(f"/v1/jobs/{removal['id']}/cancel")
            await until_delivered(api, removal["id"])
    told = [json.loads(received.body) for received in receiver.requests]
    assert [(event["data"]["id"], event["type"]) for event in told] == [
        (first, "job.cancelled"),
        (again, "job.success"),
        (removal["id"], "job.cancelled"),
    ]
    assert told[1]["data"]["retry_of"] == first
    assert told[2]["data"]["predecessor_id"] == again
