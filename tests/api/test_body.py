"""Bodies as bytes: sizes, encodings, media types, and JSON that is none."""

import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.api.conftest import CountWorkflows
from tests.api.contract import problem

JSON = {"content-type": "application/json"}
PATHS = ["/v1/jobs", "/v1/jobs/x/cancel", "/v1/jobs/x/pause", "/v1/jobs/x/resume"]
LIMIT = 256 * 1024

MALFORMED = {
    "unclosed": b'{"prompt": "a"',
    "trailing": b'{"prompt": "a"} x',
    "two documents": b'{"prompt": "a"}{"prompt": "b"}',
    "single quotes": b"{'prompt': 'a'}",
    "comma": b'{"prompt": "a",}',
    "comment": b'{"prompt": "a" /* b */}',
    "blank": b"   \n",
    "raw control character": b'{"prompt": "a\nb"}',
    "invalid escape": b'{"prompt": "\\x41"}',
    "invalid UTF-8": b'{"prompt": "\xff"}',
    "overlong UTF-8": b'{"prompt": "\xc0\x80"}',
    "surrogate in UTF-8": b'{"prompt": "\xed\xa0\x80"}',
    "UTF-16": '{"prompt": "a"}'.encode("utf-16"),
    "UTF-16 without mark": '{"prompt": "a"}'.encode("utf-16-le"),
    "UTF-32": '{"prompt": "a"}'.encode("utf-32"),
    "repeated name": b'{"prompt": "a", "prompt": "b"}',
    "repeated name, escaped": b'{"prompt": "a", "pr\\u006fmpt": "b"}',
    "repeated name inside": b'{"prompt": "a", "engine_options": {"x": 1, "x": 2}}',
    "endless list": b"[" * 100_000,
    "endless object": b'{"a":' * 50_000,
    "endless number": b'{"prompt": "a", "seed": ' + b"9" * 10_000 + b"}",
    "endless option": b'{"prompt": "a", "engine_options": {"x": ' + b"9" * 10_000 + b"}}",
    "form": b"prompt=a",
    "bare word": b"prompt",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
async def test_body_that_is_not_json_is_refused(
    deserted: httpx.AsyncClient, started: CountWorkflows, body: bytes
) -> None:
    for path in PATHS:
        problem(await deserted.post(path, content=body, headers=JSON), 400, "MALFORMED_JSON")
    assert await started() == 0


@pytest.mark.parametrize("path", PATHS)
async def test_body_over_the_limit_is_refused_by_its_told_length(
    deserted: httpx.AsyncClient, path: str
) -> None:
    response = await deserted.post(path, content=b" " * (LIMIT + 1), headers=JSON)
    problem(response, 413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("path", PATHS)
async def test_body_over_the_limit_is_refused_while_it_comes(
    deserted: httpx.AsyncClient, path: str
) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1024
            yield b" " * 1024

    response = await deserted.post(path, content=endless(), headers=JSON)
    problem(response, 413, "BODY_TOO_LARGE")
    assert sent <= LIMIT + 2048


async def test_body_at_the_limit_is_read(deserted: httpx.AsyncClient) -> None:
    body = b'{"prompt":"a"}'.ljust(LIMIT)
    response = await deserted.post("/v1/jobs", content=body, headers=JSON)
    assert response.status_code == 202


@pytest.mark.parametrize("length", ["9" * 400, "-1", "abc", "\xb2"])
async def test_told_length_that_is_no_number_does_no_harm(
    deserted: httpx.AsyncClient, length: str
) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", length.encode("latin-1")),
    ]
    response = await deserted.post("/v1/jobs", content=b"{}", headers=headers)
    assert response.status_code in {413, 422}


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "application/json, text/plain",
        "application/json; charset=latin-1",
        "application/json; charset=utf-16",
        "text/json",
        "image/png",
        "json",
        "/",
        ";",
        "application/" + "a" * 5000,
    ],
)
async def test_other_media_types_are_refused(
    deserted: httpx.AsyncClient, started: CountWorkflows, content_type: str
) -> None:
    for path in PATHS:
        headers = {"content-type": content_type}
        response = await deserted.post(path, content=b'{"prompt":"a"}', headers=headers)
        problem(response, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert await started() == 0


async def test_body_without_media_type_is_refused(deserted: httpx.AsyncClient) -> None:
    response = await deserted.post("/v1/jobs", content=b'{"prompt":"a"}')
    problem(response, 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "GZIP, identity"])
async def test_compressed_body_is_refused_with_what_is_taken(
    deserted: httpx.AsyncClient, coding: str
) -> None:
    headers = {**JSON, "content-encoding": coding}
    body = gzip.compress(b'{"prompt":"a"}')
    response = await deserted.post("/v1/jobs", content=body, headers=headers)
    problem(response, 415, "UNSUPPORTED_MEDIA_TYPE")
    assert response.headers["accept-encoding"] == "identity"


async def test_body_of_a_reading_request_is_left_alone(deserted: httpx.AsyncClient) -> None:
    response = await deserted.request("GET", "/v1/jobs/x", content=b"{" * LIMIT * 2)
    problem(response, 404, "JOB_NOT_FOUND")
