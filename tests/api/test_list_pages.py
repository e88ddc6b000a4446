"""Pages of `GET /v1/jobs`: AIP-158, and nothing twice or missed while jobs come and end."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client
from temporalio.service import RPCError

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.queries import ListJobsQuery
from api.settings import ApiSettings
from tests.api.contract import problem
from tests.api.stage import deciding
from tests.api.tenants import asking_as, key_for
from tests.workflows.pure import image_request, quick
from workflows.names import workflow_id_for
from workflows.submission import start_job


async def start(client: Client, engine: str, count: int, **fields: object) -> list[str]:
    """Start jobs that nobody works on, one after the other."""
    ids = [uuid4().hex for _ in range(count)]
    for job_id in ids:
        request = image_request(engine=engine, **fields)
        await start_job(client, job_id, request, task_queue=f"nobody-{engine}")
    return ids


async def page(api: httpx.AsyncClient, **asked: object) -> tuple[list[str], str]:
    response = await api.get("/v1/jobs", params=asked)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return [job["id"] for job in told["jobs"]], told["next_page_token"]


async def until_counted(client: Client, engine: str, count: int) -> None:
    """Wait until visibility has them all."""
    async with asyncio.timeout(20):
        while (await client.count_workflows(f'JobEngine="{engine}"')).count < count:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("size", [1, 3, 7, 8])
async def test_pages_while_jobs_are_added_and_ended_repeat_and_miss_none(
    api: httpx.AsyncClient, client: Client, engine: str, size: int
) -> None:
    ids = await start(client, engine, 21)
    await until_counted(client, engine, 21)
    seen, token, others = list[str](), "", list[str]()
    async with deciding(client):
        while True:
            here, token = await page(api, engine=engine, page_size=size, page_token=token)
            assert 0 < len(here) <= size
            assert not set(seen) & set(here)
            seen += here
            if not token:
                break
            # One is added, one that was listed ends, and one that was not.
            others += await start(client, engine, 1)
            for job_id in (here[0], ids[len(others) % len(ids)]):
                with contextlib.suppress(RPCError):
                    await client.get_workflow_handle(workflow_id_for(job_id)).terminate()
    assert [job_id for job_id in seen if job_id not in others] == ids[::-1]


async def test_jobs_of_one_moment_are_paged_apart(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    ids = await asyncio.gather(*(start(client, engine, 1) for _ in range(30)))
    await until_counted(client, engine, 30)
    seen, token = await page(api, engine=engine, page_size=4)
    while token:
        here, token = await page(api, engine=engine, page_size=4, page_token=token)
        assert not set(seen) & set(here)
        seen += here
    assert sorted(seen) == sorted(job_id for [job_id] in ids)


async def test_page_sizes_are_coerced(api: httpx.AsyncClient, client: Client, engine: str) -> None:
    await start(client, engine, 52)
    await until_counted(client, engine, 52)
    for asked, size in ((None, 50), (0, 50), (1, 1), (501, 52), (10**12, 52)):
        here, token = await page(
            api, engine=engine, **({} if asked is None else {"page_size": asked})
        )
        assert (len(here), bool(token)) == (size, size < 52)


async def test_token_is_bound_to_the_filters_but_not_to_their_order_or_the_page_size(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    await start(client, engine, 4)
    await until_counted(client, engine, 4)
    asked: dict[str, object] = {"engine": [engine, "other"], "state": ["PENDING", "FAILED"]}
    first, token = await page(api, page_size=1, **asked)
    swapped = {name: values[::-1] for name, values in asked.items() if isinstance(values, list)}
    second, _ = await page(api, page_size=2, page_token=token, **swapped)
    assert len({*first, *second}) == 3
    for other in ({"engine": engine}, asked | {"priority": 5}, asked | {"label": "a"}, {}):
        response = await api.get("/v1/jobs", params=other | {"page_token": token})  # type: ignore[arg-type]
        problem(response, 400, "INVALID_PAGE_TOKEN")


@pytest.mark.parametrize("token", ["x", "1", "é", "A" * 5000, "====", "\0", "../..", "%00", "🌙"])
async def test_broken_token_is_refused(deserted: httpx.AsyncClient, token: str) -> None:
    response = await deserted.get("/v1/jobs", params={"page_token": token})
    told = problem(response, 400, "INVALID_PAGE_TOKEN")
    assert "next_page_token" in told["detail"]


async def test_other_tenants_see_neither_jobs_nor_tokens(
    api: httpx.AsyncClient, client: Client, tmp_path: Path, engine: str
) -> None:
    ours = await start(client, engine, 2)
    theirs = await start(client, engine, 2, tenant="acme")
    await until_counted(client, engine, 4)
    keyed = LocalArtifactStore(tmp_path / "keyed")
    app = create_app(client, keyed, ApiSettings(engines=engine))
    async with asking_as(app, await key_for(keyed, "acme")) as acme:
        assert (await page(acme, engine=engine)) == (theirs[::-1], "")
        assert (await page(api, engine=engine)) == (ours[::-1], "")
        _, token = await page(api, engine=engine, page_size=1)
        assert token
        response = await acme.get("/v1/jobs", params={"engine": engine, "page_token": token})
        problem(response, 400, "INVALID_PAGE_TOKEN")


async def test_reasons_of_many_terminated_jobs_are_told_for_the_newest(
    api: httpx.AsyncClient, client: Client, engine: str
) -> None:
    ids = await start(client, engine, 52)
    for job_id in ids:
        await client.get_workflow_handle(workflow_id_for(job_id)).terminate(reason="an old build")
    jobs: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while len(jobs) < 52:
            asked = {"engine": engine, "state": "FAILED", "page_size": "52"}
            jobs = (await api.get("/v1/jobs", params=asked)).json()["jobs"]
    told = [job["error"]["message"] for job in jobs]
    assert set(told[:50]) == {"terminated by an operator: an old build"}
    assert set(told[50:]) == {"terminated by an operator; the job itself tells the reason"}


_NOBODY = uuid4().hex
hostile = st.text(st.one_of(st.sampled_from("\"'\\%()\0\n\t;=*"), st.characters(codec="utf-8")))
names = st.sampled_from([*ListJobsQuery.model_fields, "other"])


@quick
@given(st.lists(st.tuples(names, hostile), max_size=6))
async def test_no_query_string_is_a_fault(
    deserted: httpx.AsyncClient, sent: list[tuple[str, str | int | float | bool | None]]
) -> None:
    response = await deserted.get("/v1/jobs", params=httpx.QueryParams(sent))
    assert response.status_code in {200, 400, 422}, response.text
    if response.status_code != 200:
        code = {400: "INVALID_PAGE_TOKEN", 422: "INVALID_REQUEST"}[response.status_code]
        problem(response, response.status_code, code)


@quick
@given(hostile.filter(bool))
async def test_no_label_or_worker_finds_what_it_does_not_name(
    deserted: httpx.AsyncClient, text: str
) -> None:
    # Other tests' jobs have labels of every kind.
    own = f"{text} of {_NOBODY}"
    for name in ("label", "worker"):
        response = await deserted.get("/v1/jobs", params={name: own})
        assert response.status_code == 422 or response.json()["jobs"] == [], response.text
