"""Errors that no route gives: unknown paths, wrong methods, faults; and what leaks of none."""

import logging

import httpx
import pytest
from fastapi import FastAPI
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import problem

SECRET = "password=hunter2 at /srv/secret.py"  # noqa: S105


@pytest.fixture
def faulty(deserted_client: Client, store: LocalArtifactStore) -> FastAPI:
    """The application, with a route that has a fault."""
    app = create_app(deserted_client, store, ApiSettings())

    async def boom(rest: str) -> None:
        raise ZeroDivisionError(SECRET)

    app.add_api_route("/boom/{rest}", boom, include_in_schema=False)
    return app


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/nope", "/v1", "/v1/jobs/", "/v2/jobs", "//v1/jobs", "/v1/../etc/passwd"),
        *("/v1/jobs/x/", "/v1/jobs/x/y", "/v1/jobs/x/image/", "/healthz/"),
        *("/%00", "/é", "/" + "a" * 5000),
    ],
)
async def test_unknown_path_is_not_found_and_leads_nowhere(
    deserted: httpx.AsyncClient, path: str
) -> None:
    for method in ("GET", "POST", "DELETE"):
        response = await deserted.request(method, path)
        problem(response, 404, "NOT_FOUND")
        assert "location" not in response.headers


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/jobs", "GET, HEAD, POST"),
        ("/v1/stats", "GET, HEAD"),
        ("/v1/jobs/x", "GET, HEAD, PATCH"),
        ("/v1/jobs/x/image", "GET, HEAD"),
        ("/v1/jobs/x/cancel", "POST"),
        ("/v1/bulk/x", "GET, HEAD"),
        ("/healthz", "GET, HEAD"),
        ("/readyz", "GET, HEAD"),
        ("/openapi.json", "GET, HEAD"),
    ],
)
async def test_wrong_method_is_refused_with_those_there_are(
    deserted: httpx.AsyncClient, path: str, allow: str
) -> None:
    refused = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"}
    for method in refused - set(allow.split(", ")):
        response = await deserted.request(method, path)
        assert response.status_code == 405
        assert response.headers["allow"] == allow
        if method != "HEAD":
            problem(response, 405, "METHOD_NOT_ALLOWED")


async def test_path_that_is_documented_as_it_is_has_its_own_methods(
    deserted: httpx.AsyncClient,
) -> None:
    """Not those of `/v1/bulk/{bulk_id}`, too, though that looks the same."""
    response = await deserted.options("/v1/bulk/cancel")
    problem(response, 405, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"] == "POST"


async def test_fault_is_logged_in_full_and_told_in_part(
    faulty: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(faulty) as api:
        response = await api.get("/boom/x")
    problem(response, 500, "INTERNAL")
    assert "hunter2" not in response.text
    [record] = [r for r in caplog.records if r.name == "darkroom.api"]
    assert record.exc_info
    assert SECRET in str(record.exc_info[1])


async def test_path_writes_no_lines_of_its_own_into_the_log(
    faulty: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    async with asking(faulty) as api:
        await api.get("/boom/x%0a2027-01-01 INFO all is well%1b[2J%0d")
    [record] = [r for r in caplog.records if r.name == "darkroom.api"]
    assert record.levelno == logging.ERROR
    assert record.getMessage().isprintable()


async def test_no_other_site_is_let_in(deserted: httpx.AsyncClient) -> None:
    headers = {"origin": "https://evil.test", "access-control-request-method": "POST"}
    for method, path in (("OPTIONS", "/v1/jobs"), ("GET", "/healthz"), ("GET", "/v1/jobs/x")):
        response = await deserted.request(method, path, headers=headers)
        assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_header_of_a_client_comes_back_nowhere(deserted: httpx.AsyncClient) -> None:
    headers = {"x-evil": "evil-marker", "accept": "text/evil-marker", "cookie": "a=evil-marker"}
    response = await deserted.get("/v1/jobs/x", headers=headers)
    problem(response, 404, "JOB_NOT_FOUND")
    assert "evil-marker" not in response.text + str(response.headers)
