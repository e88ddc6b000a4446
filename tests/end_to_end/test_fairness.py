"""Priorities and fairness, from the API's keys to a real worker with one slot: who is served when.

Only the order of the jobs is looked at. Within a priority tenants take turns, by their weights; a
higher priority comes before all turns.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import httpx
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import job
from tests.api.stage import deciding
from tests.api.tenants import bearer, key_for
from tests.end_to_end.worker_process import worker
from workflows.names import workflow_id_for

PICTURE = {"prompt": "a lake", "width": 64, "height": 64, "num_inference_steps": 1, "seed": 1}

PROCEDURAL = "activities.engines.procedural:ProceduralEngine"


class Queue:
    """The jobs of some tenants, all of them waiting for one worker that has yet to come."""

    def __init__(
        self,
        client: Client,
        api: httpx.AsyncClient,
        keys: dict[str, str],
        place: tuple[str, Path],
    ) -> None:
        self._client = client
        self._engine, self._data_dir = place
        self._api = api
        self._keys = keys
        self._owners: dict[str, str] = {}

    async def submit(self, tenant: str, number: int, priority: int | None = None) -> list[str]:
        """So many jobs of a tenant, in the queue one after the other; their ids."""
        asked = PICTURE | ({} if priority is None else {"priority": priority})
        ids = []
        for _ in range(number):
            told = job(await self._api.post("/v1/jobs", json=asked, headers=self._as(tenant)), 202)
            ids.append(told["id"])
            self._owners[told["id"]] = tenant
            await self._is_queued(told["id"])
        return ids

    async def ask(self, method: str, tenant: str, path: str, **asked: object) -> httpx.Response:
        """A request of a tenant's."""
        return await self._api.request(method, path, json=asked, headers=self._as(tenant))

    async def amend(self, tenant: str, job_id: str, priority: int) -> None:
        """Another priority for a job, which is in the queue with it once this returns."""
        job(await self.ask("PATCH", tenant, f"/v1/jobs/{job_id}", priority=priority), 200)
        await self._is_queued(job_id)

    async def served(self) -> list[tuple[str, str]]:
        """Let one slot work on all; each job's tenant and id, in the order of their service."""
        begun = {}
        engines = f"{self._engine}={PROCEDURAL}"
        slot = {"ENGINES": engines, "GENERATE_SLOTS": "1"}
        async with (
            worker(self._client, self._data_dir, "--serve", "generate", **slot),
            asyncio.timeout(120),
        ):
            for job_id, tenant in self._owners.items():
                begun[job_id] = await self._begun_at(tenant, job_id)
        return [(self._owners[job_id], job_id) for job_id in sorted(begun, key=begun.__getitem__)]

    async def _begun_at(self, tenant: str, job_id: str) -> datetime:
        while True:
            answer = await self._api.get(f"/v1/jobs/{job_id}?wait=10", headers=self._as(tenant))
            told = job(answer, 200)
            if told["done"]:
                assert told["state"] == "SUCCESS", told
                return datetime.fromisoformat(told["started_at"])

    async def _is_queued(self, job_id: str) -> None:
        handle = self._client.get_workflow_handle(workflow_id_for(job_id))

        async def is_queued() -> bool:
            raw = (await handle.describe()).raw_description
            return bool(raw.pending_activities) and not raw.HasField("pending_workflow_task")

        async with asyncio.timeout(20):
            while not await is_queued():
                await asyncio.sleep(0.02)

    def _as(self, tenant: str) -> dict[str, str]:
        return bearer(self._keys[tenant])


@asynccontextmanager
async def queue(client: Client, folder: Path, **settings: str) -> AsyncIterator[Queue]:
    """A queue that nobody works on, of an engine of its own, for the tenants `many` and `few`."""
    engine = f"e{uuid4().hex[:12]}"
    data_dir = folder / "data"
    data_dir.mkdir()
    store = LocalArtifactStore(data_dir / "artifacts")
    app = create_app(client, store, ApiSettings.model_validate({"engines": engine} | settings))
    keys = {tenant: await key_for(store, tenant) for tenant in ("many", "few")}
    async with deciding(client), asking(app) as api:
        yield Queue(client, api, keys, (engine, data_dir))


async def test_tenant_with_many_jobs_lets_others_in_between_at_any_priority(
    client: Client, tmp_path: Path
) -> None:
    async with queue(client, tmp_path) as jobs:
        for priority in (9, 5):
            await jobs.submit("many", 12, priority)
        few = [*await jobs.submit("few", 2, 9), *await jobs.submit("few", 2, 5)]
        served = await jobs.served()
    place = {job_id: index for index, (_, job_id) in enumerate(served)}
    # Fourteen jobs for each priority: of the many, half at least come after the few.
    assert max(place[job_id] for job_id in few[:2]) < 8
    assert min(place[job_id] for job_id in few[2:]) >= 14
    assert max(place[job_id] for job_id in few[2:]) < 14 + 8


async def test_tenant_does_not_get_ahead_of_others_beyond_its_highest_priority(
    client: Client, tmp_path: Path
) -> None:
    async with queue(client, tmp_path, tenant_max_priority="many=4") as jobs:
        many = await jobs.submit("many", 6)
        refused = await jobs.ask("POST", "many", "/v1/jobs", **PICTURE, priority=9)
        assert refused.status_code == 422
        refused = await jobs.ask("PATCH", "many", f"/v1/jobs/{many[0]}", priority=9)
        assert refused.status_code == 422
        few = await jobs.submit("few", 2)
        served = [job_id for _, job_id in await jobs.served()]
    assert served == [*few, *many]


async def test_amended_job_is_served_by_its_new_priority(client: Client, tmp_path: Path) -> None:
    async with queue(client, tmp_path) as jobs:
        first, second, third, fourth = await jobs.submit("few", 4)
        await jobs.amend("few", fourth, 6)
        await jobs.amend("few", first, 0)
        served = [job_id for _, job_id in await jobs.served()]
    assert served == [fourth, second, third, first]


async def test_weights_are_seen_in_the_order(client: Client, tmp_path: Path) -> None:
    async with queue(client, tmp_path, tenant_weights="few=3") as jobs:
        await jobs.submit("many", 12)
        await jobs.submit("few", 9)
        served = [tenant for tenant, _ in await jobs.served()]
    # Of the first twelve, nine and three, give or take a turn.
    assert 8 <= served[:12].count("few") <= 9
