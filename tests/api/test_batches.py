"""POST /v1/batches: a result for each item, and one bad item spoils none of the others."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.batches import create_batch
from api.jobs import Jobs
from api.room import room_for_jobs
from api.settings import ApiSettings
from tests.api.conftest import CountWorkflows
from tests.api.contract import problem, refused_fields
from workflows.messages import ImageJobInput
from workflows.reading import JobReader


async def results(
    api: httpx.AsyncClient, items: Sequence[object], **headers: str
) -> list[dict[str, Any]]:
    """What became of each item."""
    response = await api.post("/v1/batches", json={"jobs": list(items)}, headers=headers)
    assert response.status_code == 202, response.text
    told = response.json()["results"]
    assert [one["index"] for one in told] == list(range(len(items)))
    assert all((one["job"] is None) is (one["problem"] is not None) for one in told)
    return list(told)


async def test_bad_items_spoil_none_of_the_others(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    items = [
        {"prompt": "a"},
        {"prompt": "b", "width": 1, "seed": -1},
        "no job at all",
        {"prompt": "c", "engine": "nobody's"},
        None,
        {"prompt": "d", "watermark": "remove"},
        {"prompt": "e"},
    ]
    told = await results(deserted, items)
    assert [one["status"] for one in told] == [202, 422, 422, 422, 422, 422, 202]
    assert [one["job"]["request"]["prompt"] for one in told if one["job"]] == ["a", "e"]
    pointers = [
        [fault["pointer"] for fault in one["problem"]["errors"]] for one in told if one["problem"]
    ]
    assert pointers == [
        ["#/jobs/1/width", "#/jobs/1/seed"],
        ["#/jobs/2"],
        ["#/jobs/3/engine"],
        ["#/jobs/4"],
        ["#/jobs/5/label_terms_accepted"],
    ]
    assert await started() == 2


async def test_five_hundred_jobs_are_started(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    told = await results(deserted, [{"prompt": f"number {n}"} for n in range(500)])
    assert len({one["job"]["id"] for one in told}) == 500
    assert await started() == 500


async def test_items_inherit_the_key_of_their_batch(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    items: list[object] = [{"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}]
    key = {"Idempotency-Key": "a batch"}
    once, again = [await results(deserted, items, **key) for _ in range(2)]
    assert [one["job"]["id"] for one in once] == [one["job"]["id"] for one in again]
    assert len({one["job"]["id"] for one in once}) == 3
    changed = await results(deserted, [items[0], {"prompt": "c"}, {"prompt": "a"}], **key)
    assert [one["status"] for one in changed] == [202, 422, 202]
    assert changed[1]["problem"]["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert await started() == 3


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "#/jobs"),
        ({"jobs": []}, "#/jobs"),
        ({"jobs": {}}, "#/jobs"),
        ({"jobs": [{"prompt": "a"}] * 501}, "#/jobs"),
        ({"jobs": [{"prompt": "a"}], "more": 1}, "#/more"),
        ([], "#"),
    ],
)
async def test_what_is_no_batch_is_refused(
    deserted: httpx.AsyncClient, started: CountWorkflows, body: object, pointer: str
) -> None:
    assert refused_fields(await deserted.post("/v1/batches", json=body)) == {pointer}
    assert await started() == 0


async def test_batch_may_be_larger_than_a_job_and_has_a_limit(deserted: httpx.AsyncClient) -> None:
    large = [{"prompt": "水" * 8000, "negative_prompt": "火" * 8000, "width": 1}] * 60
    assert len(json.dumps(large, ensure_ascii=False).encode()) > 2 * 1024 * 1024
    told = await results(deserted, large)
    assert {one["status"] for one in told} == {422}
    body = b'{"jobs": ["' + b"x" * 16 * 1024 * 1024 + b'"]}'
    response = await deserted.post(
        "/v1/batches", content=body, headers={"Content-Type": "application/json"}
    )
    problem(response, 413, "BODY_TOO_LARGE")


class SlowNames:
    """Lets messages go anywhere, once so many wait to hear that."""

    def __init__(self, waiting: int) -> None:
        self._all_wait = asyncio.Barrier(waiting)

    async def require_allowed(self, url: str, field: str) -> None:
        """See `ReceiverCheck.require_allowed`."""
        await self._all_wait.wait()

    async def addressed(self, request: ImageJobInput, base_url: str) -> ImageJobInput:
        """See `ReceiverCheck.addressed`."""
        return request


async def test_names_that_nobody_answers_for_are_waited_for_together(
    deserted_client: Client, store: LocalArtifactStore
) -> None:
    jobs = Jobs(
        deserted_client,
        store,
        JobReader(deserted_client, store),
        ("procedural",),
        room_for_jobs(deserted_client, 0),
        ApiSettings().shares,
        SlowNames(50),
    )
    items = [{"prompt": "a", "callback_url": f"https://n{n}.com/"} for n in range(50)]
    async with asyncio.timeout(20):
        told = await create_batch(jobs, items, None)
    assert all(one.created for one in told)
