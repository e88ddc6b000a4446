"""Requests for bulk operations: what may be asked, how, and that nothing is asked by mistake."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.api.conftest import CountWorkflows
from tests.api.contract import problem, refused_fields

ACTIONS = ["cancel", "pause", "resume"]


async def send(
    api: httpx.AsyncClient, key: str, action: str = "cancel", query: str = "", **body: Any
) -> httpx.Response:
    headers = {"Idempotency-Key": key}
    return await api.post(f"/v1/bulk/{action}{query}", json=body or None, headers=headers)


@pytest.mark.parametrize(
    ("query", "body", "filters"),
    [
        ("", {}, {}),
        ("", {"state": "PENDING"}, {"state": ["PENDING"]}),
        ("?state=PENDING&state=PAUSED", {}, {"state": ["PAUSED", "PENDING"]}),
        ("?label=a:b", {"priority": [9, 1]}, {"label": ["a:b"], "priority": [1, 9]}),
        ("?priority=3", {}, {"priority": [3]}),
        ("", {"label": "a\"b'c\\:d"}, {"label": ["a\"b'c\\:d"]}),
        (
            "?created_before=2026-11-01T00:00:00%2B02:00",
            {"updated_before": "2026-11-02T00:00:00Z", "running_longer_than_seconds": 5},
            {
                "created_before": "2026-10-31T22:00:00Z",
                "updated_before": "2026-11-02T00:00:00Z",
                "running_longer_than_seconds": 5.0,
            },
        ),
    ],
)
@pytest.mark.parametrize("action", ACTIONS)
async def test_filters_are_taken_as_lists_take_them(
    deserted: httpx.AsyncClient, action: str, query: str, body: Any, filters: Any
) -> None:
    response = await deserted.post(f"/v1/bulk/{action}{query}", json=body or None)
    assert response.status_code == 202, response.text
    told = response.json()
    assert (told["action"], told["filter"], told["message"]) == (action, filters, "")
    again = await deserted.get(f"/v1/bulk/{told['id']}")
    assert again.json() == told


@pytest.mark.parametrize(
    ("query", "body", "pointers"),
    [
        ("?stat=PENDING", None, {"#/query/stat"}),
        ("?message=why", None, {"#/query/message"}),
        ("?page_size=10", None, {"#/query/page_size"}),
        ("?state=RUNNING", None, {"#/query/state/0"}),
        ("?state=", None, {"#/query/state/0"}),
        ("", {"stat": "PENDING"}, {"#/stat"}),
        ("", {"page_token": ""}, {"#/page_token"}),
        ("", {"tenant": "other"}, {"#/tenant"}),
        ("", {"state": "pending"}, {"#/state/0"}),
        ("", {"state": ["PENDING", 5]}, {"#/state/1"}),
        ("", {"state": None, "created_before": None}, {"#/state", "#/created_before"}),
        ("", {"state": [], "label": []}, {"#/state", "#/label"}),
        ("", {"engine": {"a": "b"}}, {"#/engine/0"}),
        ("", {"engine": 'x" OR JobTenant != "'}, {"#/engine/0"}),
        ("", {"worker": 'x" OR JobTenant != "'}, {"#/worker/0"}),
        ("", {"worker": "a\\"}, {"#/worker/0"}),
        ("", {"label": "a\0"}, {"#/label/0"}),
        ("", {"label": ["x" * 320]}, {"#/label/0"}),
        ("", {"label": ["x"] * 21}, {"#/label"}),
        ("", {"priority": [True, 1.0, 10, "1_0"]}, {f"#/priority/{n}" for n in range(4)}),
        ("", {"created_after": "yesterday"}, {"#/created_after"}),
        ("", {"created_after": 5}, {"#/created_after"}),
        ("", {"running_longer_than_seconds": True}, {"#/running_longer_than_seconds"}),
        ("", {"running_longer_than_seconds": -1}, {"#/running_longer_than_seconds"}),
        ("", {"message": "x" * 1001}, {"#/message"}),
        ("", {"message": None}, {"#/message"}),
        ("", [], {"#"}),
        ("", "cancel", {"#"}),
        ("?state=PENDING", {"state": "PENDING"}, {"#/state"}),
        ("?label=a&state=PENDING", {"label": "b", "state": ["PAUSED"]}, {"#/label", "#/state"}),
    ],
)
@pytest.mark.parametrize("action", ACTIONS)
async def test_whatever_is_wrong_is_named_and_starts_nothing(
    deserted: httpx.AsyncClient,
    started: CountWorkflows,
    action: str,
    query: str,
    body: Any,
    pointers: set[str],
) -> None:
    response = await deserted.post(f"/v1/bulk/{action}{query}", json=body)
    assert refused_fields(response) == pointers
    assert await started() == 0


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"state":"PENDING","state":"PAUSED"}'])
async def test_body_that_is_no_json_starts_nothing(
    deserted: httpx.AsyncClient, started: CountWorkflows, content: bytes
) -> None:
    headers = {"content-type": "application/json"}
    response = await deserted.post("/v1/bulk/cancel", content=content, headers=headers)
    problem(response, 400, "MALFORMED_JSON")
    form = await deserted.post("/v1/bulk/cancel", content=content)
    problem(form, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert await started() == 0


async def test_page_of_another_site_can_start_nothing(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    for action in ACTIONS:
        response = await deserted.post(f"/v1/bulk/{action}", headers=headers)
        problem(response, 403, "CROSS_SITE_REQUEST")
    assert await started() == 0


async def test_many_at_once_with_one_key_are_one_bulk(
    deserted: httpx.AsyncClient, started: CountWorkflows
) -> None:
    answers = await asyncio.gather(*(send(deserted, "at once", engine="e") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    replays = [answer.headers.get("idempotency-replayed") for answer in answers]
    assert sorted(replays, key=str) == [None, *["true"] * 19]
    assert await started() == 1


async def test_same_request_in_other_words_is_the_same(deserted: httpx.AsyncClient) -> None:
    first = await send(deserted, "words", state=["PENDING", "PAUSED"], label="a")
    again = await send(deserted, "words", query="?state=PAUSED&label=a&state=PENDING")
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()


async def test_key_with_another_request_is_refused(deserted: httpx.AsyncClient) -> None:
    await send(deserted, "reused", state="PENDING", message="why")
    for action, body in (
        ("cancel", {"state": "PAUSED", "message": "why"}),
        ("cancel", {"state": "PENDING", "message": "why not"}),
        ("cancel", {"message": "why"}),
        ("pause", {"state": "PENDING", "message": "why"}),
    ):
        answer = await send(deserted, "reused", action, **body)
        problem(answer, 422, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.parametrize("bulk_id", ["x" * 101, "A", "a b", "%00", "..", "job-1", "no-such"])
async def test_id_of_no_bulk_is_not_found(deserted: httpx.AsyncClient, bulk_id: str) -> None:
    response = await deserted.get(f"/v1/bulk/{bulk_id}")
    assert response.status_code == 404


async def test_paths_of_actions_are_no_ids(deserted: httpx.AsyncClient) -> None:
    problem(await deserted.get("/v1/bulk/cancel"), 404, "BULK_NOT_FOUND")
    refused = await deserted.post("/v1/bulk/delete")
    problem(refused, 405, "METHOD_NOT_ALLOWED")
