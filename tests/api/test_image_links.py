"""`image_url` where there are keys: signed, for who has none."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi import FastAPI
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.links import Links
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import job, problem
from tests.api.stage import paint, png, read_until, removing, working
from tests.api.tenants import asking_as, key_for

REMOVE = {"prompt": "a", "watermark": "remove", "label_terms_accepted": True}


class Stage(NamedTuple):
    """A finished chain of one tenant, who looks at it, and somebody without a key."""

    app: FastAPI
    owner: httpx.AsyncClient
    stranger: httpx.AsyncClient
    told: dict[str, Any]

    @property
    def url(self) -> str:
        """The link to the first image."""
        url: str = self.told["result"]["image_url"]
        return url

    @property
    def image(self) -> str:
        """The same without a signature."""
        return self.url.partition("?")[0]


@pytest.fixture
async def stage(client: Client, store: LocalArtifactStore, engine: str) -> AsyncIterator[Stage]:
    app = create_app(client, store, ApiSettings(engines=engine))
    async with (
        asking_as(app, await key_for(store, "anne")) as owner,
        asking(app) as stranger,
        working(client, engine, paint(store)),
        removing(client, paint(store, "white")),
    ):
        job_id = job(await owner.post("/v1/jobs", json=REMOVE), 202)["id"]
        told = await read_until(owner, job_id, lambda told: told["chain"] == "FINALIZED")
        yield Stage(app, owner, stranger, told)


async def test_link_shows_the_image_without_a_key(stage: Stage) -> None:
    answer = await stage.stranger.get(stage.url)
    assert (answer.status_code, answer.content) == (200, png())
    looked_at = await stage.stranger.head(stage.url)
    assert (looked_at.status_code, looked_at.content) == (200, b"")
    assert int(looked_at.headers["content-length"]) == len(png())
    tag = {"if-none-match": answer.headers["etag"]}
    assert (await stage.stranger.get(stage.url, headers=tag)).status_code == 304


async def test_link_opens_nothing_else(stage: Stage) -> None:
    query = stage.url.partition("?")[2]
    own, other = stage.image.removesuffix("/image"), stage.told["successor_id"]
    for url in (
        stage.url + "&final=true",
        stage.url + "&final=1",
        stage.url + "&final=false&final=true",
        stage.url + "&expires=1",
        stage.url + "x",
        stage.url.replace("signature=", "signature=x&signature="),
        stage.url.replace("expires=", "expires=1"),
        f"{stage.image}?signature=%ff%fe&expires=1",
        f"{stage.image}?signature=",
        f"/v1/jobs/{other}/image?{query}",
        f"/v1/jobs/no-such-job/image?{query}",
    ):
        problem(await stage.stranger.get(url), 403, "LINK_INVALID")
    for url in (f"{own}?{query}", f"{stage.image}", f"{stage.image}/?{query}", f"/v1/jobs?{query}"):
        problem(await stage.stranger.get(url), 401, "UNAUTHENTICATED")
    problem(await stage.stranger.post(f"{own}/cancel?{query}"), 401, "UNAUTHENTICATED")
    problem(await stage.stranger.post(stage.url), 401, "UNAUTHENTICATED")


async def test_link_of_the_past_has_expired(stage: Stage, store: LocalArtifactStore) -> None:
    signer = await Links(store, 60, lambda: 1_000_000_000.0).signer()
    assert signer is not None
    old = f"{stage.image}?{signer.query(stage.told['id'])}"
    problem(await stage.stranger.get(old), 403, "LINK_EXPIRED")


async def test_link_of_another_service_is_invalid(stage: Stage, tmp_path: Path) -> None:
    signer = await Links(LocalArtifactStore(tmp_path / "foreign"), 60).signer()
    assert signer is not None
    foreign = f"{stage.image}?{signer.query(stage.told['id'])}"
    problem(await stage.stranger.get(foreign), 403, "LINK_INVALID")


async def test_link_beside_a_key_is_not_looked_at(stage: Stage) -> None:
    assert (await stage.owner.get(stage.image + "?signature=x&expires=1")).status_code == 200
    headers = {"authorization": "Bearer wrong"}
    problem(await stage.stranger.get(stage.url, headers=headers), 401, "UNAUTHENTICATED")
    of_a_proxy = {"authorization": "Basic YTpi"}
    assert (await stage.stranger.get(stage.url, headers=of_a_proxy)).status_code == 200


async def test_every_answer_of_every_process_has_a_link_and_the_same_for_a_while(
    stage: Stage, client: Client, store: LocalArtifactStore, engine: str
) -> None:
    path = f"/v1/jobs/{stage.told['id']}"
    # In half a day the grid moves on, but hardly between these two.
    settings = ApiSettings(engines=engine, link_seconds=30 * 86_400)
    tags = set()
    for _ in range(2):
        async with asking_as(
            create_app(client, store, settings), await key_for(store, "anne")
        ) as api:
            tags |= {(await api.get(path)).headers["etag"] for _ in range(3)}
    assert len(tags) == 1
    controlled = job(await stage.owner.post(f"{path}/cancel"), 200)
    assert "signature=" in controlled["result"]["image_url"]


async def test_link_to_the_final_image_gives_it_and_the_record_says_so(
    stage: Stage, store: LocalArtifactStore, tmp_path: Path
) -> None:
    signer = await Links(store, 60).signer()
    assert signer is not None
    final = f"{stage.image}?{signer.query(stage.told['id'], final=True)}"
    for asked in (final, stage.image + "?final=true"):
        api = stage.stranger if asked == final else stage.owner
        answer = await api.get(asked)
        assert (answer.status_code, answer.content) == (200, png("white"))
    files = (tmp_path / "artifacts" / "records" / stage.told["id"]).iterdir()
    records = [json.loads(file.read_text()) for file in files]
    assert {record["delivered_to"] for record in records} == {"api:anne"}
    assert sorted(record["by_link"] for record in records) == [False, True]


async def test_without_keys_the_address_is_plain(
    client: Client, store: LocalArtifactStore, engine: str, api: httpx.AsyncClient
) -> None:
    async with working(client, engine, paint(store)):
        job_id = job(await api.post("/v1/jobs", json={"prompt": "a"}), 202)["id"]
        told = await read_until(api, job_id, lambda told: bool(told["done"]))
    url = told["result"]["image_url"]
    assert url.endswith(f"/v1/jobs/{job_id}/image")
    assert (await api.get(url)).status_code == 200
    assert (await api.get(url + "?expires=1&signature=x")).status_code == 200


async def test_job_is_told_though_its_link_can_not_be_signed(
    client: Client, store: LocalArtifactStore, stage: Stage, tmp_path: Path
) -> None:
    links = tmp_path / "artifacts" / "config" / "links"
    links.rename(tmp_path / "elsewhere")
    links.write_text("no folder")
    app = create_app(client, store, ApiSettings())
    async with asking_as(app, await key_for(store, "anne")) as api, asking(app) as stranger:
        told = job(await api.get(f"/v1/jobs/{stage.told['id']}"), 200)
        assert told["result"]["image_url"] == stage.image
        problem(await stranger.get(stage.url), 503, "STORE_UNAVAILABLE")
