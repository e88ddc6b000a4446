"""Who is let in, and what tenants can't do to each other's jobs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from fastapi import FastAPI
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.keys import add_key, revoke_key
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import job, problem
from tests.api.stage import paint, read_until, read_when, removing, working
from tests.api.tenants import asking_as, bearer, key_for
from workflows.names import workflow_id_for

REMOVE = {"prompt": "a", "watermark": "remove", "label_terms_accepted": True}


class Tenants(NamedTuple):
    """Two tenants of one application."""

    app: FastAPI
    anne: httpx.AsyncClient
    bob: httpx.AsyncClient
    key: str


@pytest.fixture
async def tenants(client: Client, store: LocalArtifactStore, engine: str) -> AsyncIterator[Tenants]:
    anne, bob = [await key_for(store, tenant) for tenant in ("anne", "bob")]
    app = create_app(client, store, ApiSettings(engines=engine))
    async with asking_as(app, anne) as first, asking_as(app, bob) as second:
        yield Tenants(app, first, second, anne)


def attempts(job_id: str) -> list[tuple[str, str]]:
    """Everything that can be asked about a job."""
    own = f"/v1/jobs/{job_id}"
    reads = [own, f"{own}?wait=1", f"{own}/image", f"{own}/image?final=true", f"{own}/events"]
    asks = [f"{own}/{name}" for name in ("cancel", "pause", "resume", "retry", "watermark-removal")]
    return [
        *(("GET", r) for r in reads),
        *(("HEAD", r) for r in reads),
        *(("POST", a) for a in asks),
    ]


async def try_all(api: httpx.AsyncClient, job_id: str) -> list[httpx.Response]:
    accepted = {"label_terms_accepted": True}
    return [
        await api.request(
            method, path, json=accepted if path.endswith("watermark-removal") else None
        )
        for method, path in attempts(job_id)
    ]


async def test_tenants_can_do_nothing_to_each_others_jobs(
    tenants: Tenants, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    async with working(client, engine, paint(store)), removing(client, paint(store, "white")):
        done = job(await tenants.anne.post("/v1/jobs", json=REMOVE), 202)["id"]
        told = await read_until(tenants.anne, done, lambda told: told["chain"] == "FINALIZED")
    waiting = job(await tenants.anne.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
    missing = [a.content for a in await try_all(tenants.bob, "no-such-job")]
    for job_id in (done, told["successor_id"], waiting):
        before = (await tenants.anne.get(f"/v1/jobs/{job_id}")).json()
        answers = await try_all(tenants.bob, job_id)
        assert {answer.status_code for answer in answers} == {404}
        assert [answer.content for answer in answers] == missing
        after = (await tenants.anne.get(f"/v1/jobs/{job_id}")).json()
        assert after["transitions"] == before["transitions"]
        assert after["tenant"] == "anne"
    assert (await tenants.anne.get(f"/v1/jobs/{done}/image")).status_code == 200
    # Nobody was given a copy that would have to be on record.
    assert not await store.list(f"records/{done}")
    await client.get_workflow_handle(workflow_id_for(waiting)).terminate(reason="over")


async def test_transitions_and_records_name_the_tenant(
    tenants: Tenants, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    waiting = job(await tenants.bob.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
    async with working(client, engine, paint(store)), removing(client, paint(store)) as removal:
        done = job(await tenants.anne.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        await read_when(tenants.anne, done, "SUCCESS")
        accepted = {"label_terms_accepted": True}
        asked = await tenants.anne.post(f"/v1/jobs/{done}/watermark-removal", json=accepted)
        assert job(asked, 202)["tenant"] == "anne"
        await read_when(tenants.anne, asked.json()["id"], "SUCCESS")
    assert removal.inputs[0].removal is not None
    assert removal.inputs[0].removal.asked_by == "api:anne"
    assert removal.inputs[0].tenant == "anne"
    told = (await tenants.bob.get(f"/v1/jobs/{waiting}")).json()
    assert told["tenant"] == "bob"


async def test_cancel_is_by_the_tenant(tenants: Tenants, client: Client, engine: str) -> None:
    waiting = job(await tenants.bob.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
    async with working(client, "nobody", paint(LocalArtifactStore(Path("/nonexistent")))):
        told = job(await tenants.bob.post(f"/v1/jobs/{waiting}/cancel"), 200)
    assert told["transitions"][-1]["source"] == "api:bob"


async def test_job_whose_request_can_not_be_read_is_the_default_tenants(
    tenants: Tenants, client: Client, store: LocalArtifactStore
) -> None:
    job_id = job(await tenants.anne.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
    handle = client.get_workflow_handle(workflow_id_for(job_id))
    await handle.terminate(reason="over")
    damaged = "0" * 30 + "ab"
    await client.start_workflow(
        "ImageJobWorkflow", {"no": "request"}, id=workflow_id_for(damaged), task_queue="nobody"
    )
    default = await key_for(store, "default")
    app = create_app(client, store, ApiSettings())
    async with asking_as(app, default) as api:
        assert (await api.get(f"/v1/jobs/{damaged}")).json()["tenant"] == "default"
        problem(await api.get(f"/v1/jobs/{job_id}"), 404, "JOB_NOT_FOUND")
    problem(await tenants.anne.get(f"/v1/jobs/{damaged}"), 404, "JOB_NOT_FOUND")
    await client.get_workflow_handle(workflow_id_for(damaged)).terminate(reason="over")


async def test_all_wrong_keys_get_the_same_answer(
    tenants: Tenants, store: LocalArtifactStore
) -> None:
    (revoked, revoked_text), (_, unknown) = [await add_key(store, "anne") for _ in range(2)]
    await revoke_key(store, revoked.id)
    key = tenants.key
    wrong: list[list[tuple[bytes, bytes]]] = [
        [],
        *(
            [(b"authorization", value)]
            for value in (
                b"",
                b"Bearer",
                b"Bearer ",
                b"Basic " + key.encode(),
                b"Bearer" + key.encode(),
                b"Bearer " + key[:-1].encode(),
                b"Bearer " + key.encode() + b", Bearer " + key.encode(),
                b"Bearer " + revoked_text.encode(),
                b"Bearer " + unknown[:16].encode() + b"0" * 64,
                b"Bearer \xff\xfe" + key.encode(),
                "Bearer ключ".encode(),
                b"Bearer" + b" " * 600 + key.encode(),
                b"Bearer " + b"x" * 60_000,
            )
        ),
        [(b"authorization", b"Bearer " + key.encode()), (b"authorization", b"Basic x")],
    ]
    async with asking(tenants.app) as stranger:
        answers = [
            await stranger.get("/v1/jobs/x", headers=httpx.Headers(headers)) for headers in wrong
        ]
    for answer in answers:
        problem(answer, 401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER    {}", "Bearer {}  "])
async def test_scheme_is_told_in_any_case(tenants: Tenants, form: str) -> None:
    async with asking(tenants.app) as api:
        headers = {"authorization": form.format(tenants.key)}
        problem(await api.get("/v1/jobs/x", headers=headers), 404, "JOB_NOT_FOUND")


async def test_only_health_and_description_need_no_key(tenants: Tenants) -> None:
    async with asking(tenants.app) as stranger:
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
            assert (await stranger.get(path)).status_code == 200, path
        for path in ("/", "/v1", "/v1/jobs", "/v1/jobs/x/nothing", "/docsx", "//docs", "/metrics"):
            assert (await stranger.get(path)).status_code == 401, path
        assert (await stranger.get("/docs/../v1/jobs/x")).status_code in {401, 404}
        assert (await stranger.head("/v1/jobs/x")).status_code == 401


async def test_body_of_a_stranger_is_not_looked_at(tenants: Tenants) -> None:
    async with asking(tenants.app) as stranger:
        for body in (b"{", b"x" * 1_000_000):
            problem(await stranger.post("/v1/jobs", content=body), 401, "UNAUTHENTICATED")


async def test_key_added_and_revoked_while_the_api_runs_counts(
    client: Client, store: LocalArtifactStore, engine: str
) -> None:
    app = create_app(client, store, ApiSettings(engines=engine))
    async with asking(app) as api:
        problem(await api.get("/v1/jobs/x"), 404, "JOB_NOT_FOUND")
        key, text = await add_key(store, "anne")
        await until_status(api, {}, 401)
        await until_status(api, bearer(text), 404)
        await revoke_key(store, key.id)
        await until_status(api, bearer(text), 401)
        # The last key is gone, and nothing is open again.
        problem(await api.get("/v1/jobs/x"), 401, "UNAUTHENTICATED")


async def test_file_damaged_or_moved_while_the_api_runs_takes_its_key_away(
    tenants: Tenants, tmp_path: Path
) -> None:
    problem(await tenants.bob.get("/v1/jobs/x"), 404, "JOB_NOT_FOUND")
    for file in (tmp_path / "artifacts" / "config" / "keys").iterdir():
        if "bob" in file.read_text():
            file.unlink()
        else:
            file.write_text(file.read_text().replace("anne", "not a tenant"))
    await until_status(tenants.bob, {}, 401)
    await until_status(tenants.anne, {}, 401)


async def test_store_that_can_not_be_read_lets_in_whom_it_knows(
    client: Client, store: LocalArtifactStore, tenants: Tenants, tmp_path: Path
) -> None:
    problem(await tenants.anne.get("/v1/jobs/x"), 404, "JOB_NOT_FOUND")
    _, unknown = await add_key(store, "anne")
    folder = tmp_path / "artifacts" / "config"
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("no folder")
    started = create_app(client, store, ApiSettings())
    async with asking(started) as api:
        for headers in ({}, bearer(tenants.key)):
            answer = await api.get("/v1/jobs/x", headers=headers)
            problem(answer, 503, "STORE_UNAVAILABLE")
            assert int(answer.headers["retry-after"]) >= 1
        assert (await api.get("/healthz")).status_code == 200
    async with asking(tenants.app) as api:
        await until_status(api, bearer(unknown), 503)
        problem(await api.get("/v1/jobs/x", headers=bearer(tenants.key)), 404, "JOB_NOT_FOUND")
        # Not at once: the unknown key has failed too often at this address.
        await until_status(api, {}, 401)


async def test_without_keys_only_a_loopback_api_is_open(
    client: Client, store: LocalArtifactStore
) -> None:
    everywhere = "0.0.0.0"  # noqa: S104
    async with asking(create_app(client, store, ApiSettings(api_host=everywhere))) as api:
        problem(await api.get("/v1/jobs/x"), 401, "UNAUTHENTICATED")
    allowed = ApiSettings(api_host=everywhere, allow_no_keys=True)
    async with asking(create_app(client, store, allowed)) as api:
        problem(await api.get("/v1/jobs/x"), 404, "JOB_NOT_FOUND")


async def until_status(api: httpx.AsyncClient, headers: dict[str, str], status: int) -> None:
    """Return once this is the answer."""
    async with asyncio.timeout(30):
        while (await api.get("/v1/jobs/x", headers=headers)).status_code != status:
            await asyncio.sleep(0.1)
