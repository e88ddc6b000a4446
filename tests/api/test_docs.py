"""The page that describes the API needs nothing from outside."""

import re
from urllib.parse import urljoin

import httpx
from fastapi import FastAPI
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings


def _application(client: Client, store: LocalArtifactStore) -> FastAPI:
    return create_app(client, store, ApiSettings())


async def test_the_page_loads_its_parts_from_this_api_only(
    client: Client, store: LocalArtifactStore
) -> None:
    transport = httpx.ASGITransport(_application(client, store))
    async with httpx.AsyncClient(transport=transport, base_url="http://darkroom.test") as api:
        page = await api.get("/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        parts = re.findall(r"""(?:src|href)="([^"]+)"|url: '([^']+)'""", page.text)
        addresses = [urljoin("http://darkroom.test/docs", a or b) for a, b in parts]
        assert len(addresses) == 4
        for address in addresses:
            assert address.startswith("http://darkroom.test/")
            assert (await api.get(address)).status_code == 200


async def test_a_missing_part_of_the_page_is_a_problem_document(
    client: Client, store: LocalArtifactStore
) -> None:
    transport = httpx.ASGITransport(_application(client, store))
    async with httpx.AsyncClient(transport=transport, base_url="http://darkroom.test") as api:
        answer = await api.get("/docs/assets/../../../etc/passwd")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
