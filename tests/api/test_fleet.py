"""`GET /v1/workers` and `GET /v1/engines`, with workers that send heartbeats."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from activities.declarations import declare
from activities.engines.base import Capabilities
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.stage import hold, paint, working
from tests.heartbeats import beating
from workflows.names import generate_task_queue

Told = dict[str, Any]


async def ask_until(
    api: httpx.AsyncClient, path: str, name: str, condition: Callable[[list[Told]], bool]
) -> list[Told]:
    """What is told once the condition holds."""
    async with asyncio.timeout(30):
        while True:
            response = await api.get(path)
            assert response.status_code == 200, response.text
            told: list[Told] = response.json()[name]
            if condition(told):
                return told
            await asyncio.sleep(0.1)


async def test_worker_is_told_with_what_it_serves_and_does(
    api: httpx.AsyncClient, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    own = await beating(client, f"worker-of-{engine}")

    def mine(workers: list[Told]) -> list[Told]:
        return [w for w in workers if w["identity"] == f"worker-of-{engine}"]

    def is_busy(workers: list[Told]) -> bool:
        slots = [s["slots_used"] for w in mine(workers) for s in w["serves"] if s["engine"]]
        return slots == [1]

    go = asyncio.Event()
    async with working(own, engine, hold(go, paint(store))):
        await api.post("/v1/jobs", json={"prompt": "a lake"})
        [worker] = mine(await ask_until(api, "/v1/workers", "workers", is_busy))
        [told] = await ask_until(api, "/v1/engines", "engines", lambda e: e[0]["slots_used"] == 1)
        go.set()
    assert worker["status"] == "RUNNING"
    assert worker["host"]
    assert worker["started_at"] <= worker["last_heartbeat_at"]
    serves = {service["part"]: service for service in worker["serves"]}
    assert set(serves) == {"workflows", "generate"}
    assert serves["generate"]["engine"] == engine
    assert serves["generate"]["task_queue"] == generate_task_queue(engine)
    assert serves["generate"]["slots_free"] > 0
    assert (told["name"], told["is_default"], told["is_served"]) == (engine, True, True)
    assert told["workers"] == 1
    assert told["slots_free"] == serves["generate"]["slots_free"]
    assert set(told["capabilities"].values()) == {None}


async def test_worker_that_left_is_no_longer_told(
    api: httpx.AsyncClient, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    own = await beating(client, f"worker-of-{engine}")

    def is_there(workers: list[Told]) -> bool:
        alive = [w["identity"] for w in workers if w["status"] == "RUNNING"]
        return f"worker-of-{engine}" in alive

    async with working(own, engine, paint(store)):
        await ask_until(api, "/v1/workers", "workers", is_there)
    await ask_until(api, "/v1/workers", "workers", lambda told: not is_there(told))


async def test_engines_are_told_in_order_with_what_waits_for_them(
    deserted_client: Client, store: LocalArtifactStore, engine: str
) -> None:
    app = create_app(deserted_client, store, ApiSettings(engines=f"{engine},another"))
    async with asking(app) as api:
        told = (await api.get("/v1/engines")).json()["engines"]
        workers = (await api.get("/v1/workers")).json()["workers"]
    assert [(e["name"], e["is_default"]) for e in told] == [(engine, True), ("another", False)]
    for one in told:
        assert one["is_served"] is False
        assert (one["workers"], one["slots_used"], one["slots_free"]) == (0, 0, 0)
        assert one["backlog"] == {"waiting": 0, "by_priority": {}}
    # Other tests may have had some there, for other queues.
    assert not [worker for worker in workers if worker["status"] == "RUNNING"]


async def can(api: httpx.AsyncClient) -> Told:
    """What the first engine can do."""
    response = await api.get("/v1/engines")
    assert response.status_code == 200, response.text
    told: Told = response.json()["engines"][0]["capabilities"]
    return told


async def test_engine_is_told_with_what_it_can_do(
    deserted_client: Client, store: LocalArtifactStore, engine: str
) -> None:
    await declare(store, engine, Capabilities(seed=True, targeted_cancel=True))
    async with asking(create_app(deserted_client, store, ApiSettings(engines=engine))) as api:
        told = await can(api)
    assert told == {
        **{"seed": True, "progress": False, "checkpoint": False},
        **{"targeted_cancel": True, "reconcile": False},
    }


@pytest.mark.parametrize("place", ["config/engines", f"config/engines/{'x' * 12}.json"])
async def test_store_that_tells_nothing_leaves_open_what_engines_can_do(
    deserted_client: Client, tmp_path: Path, place: str
) -> None:
    folder = tmp_path / "artifacts"
    (folder / place).parent.mkdir(parents=True)
    # No folder, or no file that can be read as one.
    (folder / place).write_bytes(b"\xff{")
    app = create_app(deserted_client, LocalArtifactStore(folder), ApiSettings(engines="x" * 12))
    async with asking(app) as api:
        assert set((await can(api)).values()) == {None}
