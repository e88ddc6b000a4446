"""POST /v1/jobs: what is refused as a value; every fault is named, and nothing is started."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import CountWorkflows, asking
from tests.api.contract import job, problem, refused_fields

JSON = {"content-type": "application/json"}
NAN, INFINITY = float("nan"), float("inf")
LONE = "\ud800"

WRONG: dict[str, list[Any]] = {
    "prompt": [None, 5, True, [], {}, "", "  \n\u3000", "a\0b", "a" * 8001],
    "negative_prompt": [None, 5, "\0", LONE, "a" * 8001],
    "width": [63, 2049, 0, -1, "512", 512.5, True, None, [512]],
    "height": [63, 2049, 1e999, NAN, 10**4000],
    "num_inference_steps": [0, 151, "30", 30.5, False],
    "guidance_scale": [-0.1, 50.1, "7.5", True, None, NAN, INFINITY],
    "seed": [-1, 2**64, 10**4000, "1", 1.5, True, NAN],
    "engine": ["", "no such", 5, "a\nb", "a" * 41, LONE, "../x"],
    "engine_options": [
        None,
        [],
        "x",
        5,
        {"a": {"b": [NAN]}},
        {LONE: 1},
        {"a": {LONE: 1}},
        {"a": ["x", LONE]},
        {"a": "\0"},
        {str(n): n for n in range(65)},
        {"a": "x" * 65_536},
    ],
    "watermark": ["removed", "KEEP", "", None, True],
    "label_terms_accepted": ["true", 1, None],
    "priority": [-1, 10, "5", 5.5, True],
    "timeout_seconds": [9, 86_401, "60", 60.5, INFINITY],
    "queue_timeout_seconds": [9, 30 * 86_400 + 1, None],
    "max_attempts": [0, 11, "3"],
    "labels": [None, [], {str(n): "" for n in range(17)}],
}
WRONG_VALUES = [(name, value) for name, values in WRONG.items() for value in values]
WRONG_TIMES = [
    "2027-01-31T18:00:00",
    "2027-01-31",
    "18:00",
    "tomorrow",
    "2027-02-29T00:00:00Z",
    "2027-13-01T00:00:00Z",
    "2026-12-31T23:59:60Z",
    "2027-01-01T24:00:00Z",
    "2027-01-01T00:00:00+99:99",
    "2027-01-01 00:00:00Z",
    "٢٠٢٧-01-01T00:00:00Z",
    "9999-12-31T23:59:59-12:00",
    "9999-12-31T23:59:59Z",
    "2100-01-01T00:00:00Z",
    "0001-01-01T00:00:00+12:00",
    "1800000000",
    1_800_000_000,
    True,
    "",
]


async def send(api: httpx.AsyncClient, body: Any) -> httpx.Response:
    """Post what a strict encoder would refuse, too."""
    return await api.post("/v1/jobs", content=json.dumps(body), headers=JSON)


@pytest.mark.parametrize(
    ("name", "value"), WRONG_VALUES, ids=[f"{n}={str(v)[:20]!a}" for n, v in WRONG_VALUES]
)
async def test_wrong_value_is_refused_by_its_name(
    deserted: httpx.AsyncClient, started: CountWorkflows, name: str, value: Any
) -> None:
    response = await send(deserted, {"prompt": "a"} | {name: value})
    assert refused_fields(response) == {f"#/{name}"}
    assert await started() == 0


async def test_whole_number_may_be_written_as_the_fraction_that_it_is(
    deserted: httpx.AsyncClient,
) -> None:
    """In JSON there is one kind of number, and our own schema takes 512.0 for an integer."""
    asked = {"prompt": "a", "width": 512.0, "seed": 7.0, "priority": 9.0, "timeout_seconds": 1e2}
    request = job(await send(deserted, asked), 202)["request"]
    assert {name: str(request[name]) for name in asked if name != "prompt"} == {
        "width": "512",
        "seed": "7",
        "priority": "9",
        "timeout_seconds": "100",
    }


@pytest.mark.parametrize("value", WRONG_TIMES)
async def test_time_that_could_be_misread_is_refused(
    deserted: httpx.AsyncClient, value: Any
) -> None:
    response = await send(deserted, {"prompt": "a", "start_at": value})
    assert refused_fields(response) == {"#/start_at"}
    assert "must be" in response.text


@pytest.mark.parametrize(
    ("labels", "pointer"),
    [
        ({"": "x"}, "#/labels/"),
        ({"k" * 64: "x"}, f"#/labels/{'k' * 64}"),
        ({"a/b~c": 3}, "#/labels/a~1b~0c"),
        ({"größe %": None}, "#/labels/gr%C3%B6%C3%9Fe%20%25"),
        ({"k": "v" * 256}, "#/labels/k"),
        ({"k": "\0"}, "#/labels/k"),
        ({"[key]": 3}, "#/labels/%5Bkey%5D"),
        ({"k": LONE}, "#/labels/k"),
    ],
    ids=str,
)
async def test_wrong_label_is_named_by_its_pointer(
    deserted: httpx.AsyncClient, labels: dict[str, Any], pointer: str
) -> None:
    assert refused_fields(await send(deserted, {"prompt": "a", "labels": labels})) == {pointer}


async def test_every_fault_is_told_at_once(deserted: httpx.AsyncClient) -> None:
    response = await send(deserted, {"width": "x", "height": 1, "priority": 10, "colour": "red"})
    wrong = {"#/prompt", "#/width", "#/height", "#/priority", "#/colour"}
    assert refused_fields(response) == wrong


@pytest.mark.parametrize("name", ["callback_url", "Prompt", "id", "tenant", "type", "__class__"])
async def test_unknown_field_is_refused(deserted: httpx.AsyncClient, name: str) -> None:
    response = await send(deserted, {"prompt": "a", name: "x"})
    assert refused_fields(response) == {f"#/{name}"}


async def test_unknown_engine_is_refused_with_those_there_are(
    deserted_client: Client, store: LocalArtifactStore
) -> None:
    two = ApiSettings(engines="fast, slow")
    async with asking(create_app(deserted_client, store, two)) as api:
        told = problem(await send(api, {"prompt": "a", "engine": "x"}), 422, "INVALID_REQUEST")
        [fault] = told["errors"]
        assert fault["pointer"] == "#/engine"
        assert "fast, slow" in fault["detail"]
        assert (await send(api, {"prompt": "a"})).json()["request"]["engine"] == "fast"
        assert (await send(api, {"prompt": "a", "engine": "slow"})).status_code == 202


@pytest.mark.parametrize("body", [None, [], [{"prompt": "a"}], "prompt", 5, True, NAN])
async def test_body_that_is_no_object_is_refused(deserted: httpx.AsyncClient, body: Any) -> None:
    assert refused_fields(await send(deserted, body)) == {"#"}


async def test_missing_body_is_refused(deserted: httpx.AsyncClient) -> None:
    assert refused_fields(await deserted.post("/v1/jobs")) == {"#"}


async def test_unknown_name_that_no_text_can_hold_is_refused(deserted: httpx.AsyncClient) -> None:
    assert refused_fields(await send(deserted, {"prompt": "a", LONE: 1})) == {"#"}


async def test_options_nested_too_deeply_are_refused(deserted: httpx.AsyncClient) -> None:
    options: Any = 1
    for _ in range(400):
        options = {"a": options}
    response = await send(deserted, {"prompt": "a", "engine_options": options})
    assert refused_fields(response) == {"#/engine_options"}


async def test_answer_to_countless_faults_stays_small(deserted: httpx.AsyncClient) -> None:
    response = await send(deserted, {"prompt": "a"} | {f"x{n}": 0 for n in range(20_000)})
    assert len(problem(response, 422, "INVALID_REQUEST")["errors"]) == 100
    assert len(response.content) < 20_000


async def test_long_name_is_not_echoed_in_full(deserted: httpx.AsyncClient) -> None:
    response = await send(deserted, {"prompt": "a", "<b>" * 50_000: 1})
    problem(response, 422, "INVALID_REQUEST")
    assert len(response.content) < 2_000


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity"])
async def test_number_beyond_json_is_refused_wherever_it_stands(
    deserted: httpx.AsyncClient, number: str
) -> None:
    for name, value in (("guidance_scale", number), ("engine_options", f'{{"a":[{number}]}}')):
        body = f'{{"prompt":"a","{name}":{value}}}'
        response = await deserted.post("/v1/jobs", content=body, headers=JSON)
        assert refused_fields(response) == {f"#/{name}"}


@pytest.mark.parametrize("number", ["-0", "-0.0", "0e5", "5E-324"])
async def test_odd_zeros_are_accepted(deserted: httpx.AsyncClient, number: str) -> None:
    body = f'{{"prompt":"a","guidance_scale":{number}}}'
    response = await deserted.post("/v1/jobs", content=body, headers=JSON)
    assert response.status_code == 202


names = st.sampled_from(["prompt", "width", "seed", "start_at", "labels", "engine_options", "x"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.text(st.characters(), max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(body=anything | st.dictionaries(names, anything))
async def test_no_json_whatever_makes_the_service_fail(
    deserted: httpx.AsyncClient, body: Any
) -> None:
    response = await send(deserted, body)
    assert response.status_code in {202, 400, 422}
    response.content.decode("utf-8", "strict")


@settings(max_examples=60, deadline=None)
@given(body=st.binary(min_size=1, max_size=60))
async def test_no_bytes_whatever_make_the_service_fail(
    deserted: httpx.AsyncClient, body: bytes
) -> None:
    response = await deserted.post("/v1/jobs", content=body, headers=JSON)
    assert response.status_code in {400, 422}
