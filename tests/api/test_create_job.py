"""POST /v1/jobs: what is accepted, and how the accepted job looks."""

from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.conftest import asking
from tests.api.contract import DEFAULTS, job
from workflows.names import workflow_id_for
from workflows.state_machine import JobState

NOW_AND_THEN = settings(max_examples=30, deadline=None)
TEXTS = {
    "emoji": "a fox 🦊 under 👩‍👩‍👧 and 🏳️‍🌈",
    "chinese": "海浪拍打灯塔",
    "right-to-left": "منارة عند الغسق \u202e עברית",
    "combining": "e\u0301a\u0308 Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢",
    "astral": "𝔄𝔟𝔠 \U0010ffff",
    "noncharacters": "\uffff\ufffe\ufdd0\ufeff",
    "controls": "tab\tline\nreturn\r bell\x07 escape\x1b[31m delete\x7f",
    "markup": "<script>alert('x')</script> {{7*7}} %s %00 ' OR 1=1 --",
}


async def create(api: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    return job(await api.post("/v1/jobs", json={"prompt": "a lighthouse"} | fields), 202)


async def test_job_is_accepted_and_durable_without_any_worker(
    deserted: httpx.AsyncClient, deserted_client: Client
) -> None:
    response = await deserted.post("/v1/jobs", json={"prompt": "a lighthouse"})
    told = job(response, 202, JobState.PENDING)
    assert response.headers["location"] == f"/v1/jobs/{told['id']}"
    assert int(response.headers["retry-after"]) >= 1
    assert (await deserted.get(response.headers["location"])).json() == told
    description = await deserted_client.get_workflow_handle(workflow_id_for(told["id"])).describe()
    assert description.workflow_type == "ImageJobWorkflow"


async def test_new_job_is_shown_in_full(deserted: httpx.AsyncClient) -> None:
    told = await create(deserted)
    seed = told["request"].pop("seed")
    assert 0 <= seed < 2**53
    assert told.pop("request") == DEFAULTS | {"prompt": "a lighthouse", "engine": "procedural"}
    own = f"http://darkroom.test/v1/jobs/{told['id']}"
    assert told.pop("links") == {"self": own, "cancel": f"{own}/cancel", "pause": f"{own}/pause"}
    assert told.pop("created_at") == told.pop("updated_at")
    assert "no worker decides" in told.pop("waiting_for")
    assert told.pop("allowed_events")
    del told["id"]
    assert told == {
        "type": "TEXT_TO_IMAGE",
        "state": "PENDING",
        "done": False,
        "attempt": 0,
        "max_attempts": 3,
        "priority": 5,
        "timeout_seconds": 1800,
        "tenant": "default",
        "amendments": [],
        "extensions": [],
        "transitions": [],
        **dict.fromkeys(
            [
                *("pending_request", "progress", "worker", "started_at", "finished_at"),
                *(
                    "deadline_at",
                    "result",
                    "error",
                    "predecessor_id",
                    "successor_id",
                    "chain",
                    "retry_of",
                ),
            ]
        ),
    }


async def test_chosen_seeds_and_ids_differ(deserted: httpx.AsyncClient) -> None:
    jobs = [await create(deserted) for _ in range(5)]
    assert len({told["request"]["seed"] for told in jobs}) == 5
    assert len({told["id"] for told in jobs}) == 5


@pytest.mark.parametrize("seed", [0, 1, 2**53 + 1, 2**63, 2**64 - 1])
async def test_seed_is_kept_to_the_last_digit(deserted: httpx.AsyncClient, seed: int) -> None:
    told = await create(deserted, seed=seed)
    assert told["request"]["seed"] == seed
    again = await deserted.get(f"/v1/jobs/{told['id']}")
    assert f'"seed":{seed},' in again.text


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_text_comes_back_character_by_character(
    deserted: httpx.AsyncClient, text: str
) -> None:
    told = await create(
        deserted,
        prompt=text,
        negative_prompt=text,
        labels={text[:63]: text[:255]},
        engine_options={text: [text]},
    )
    asked = (await deserted.get(f"/v1/jobs/{told['id']}")).json()["request"]
    assert asked["prompt"] == asked["negative_prompt"] == text
    assert asked["labels"] == {text[:63]: text[:255]}
    assert asked["engine_options"] == {text: [text]}


async def test_longest_texts_are_accepted(deserted: httpx.AsyncClient) -> None:
    told = await create(deserted, prompt="🌊" * 8000, negative_prompt="字" * 8000)
    assert len(told["request"]["prompt"]) == 8000


async def test_every_limit_itself_is_accepted(deserted: httpx.AsyncClient) -> None:
    lowest = {
        **{"width": 64, "height": 64, "num_inference_steps": 1, "guidance_scale": 0},
        **{"priority": 0, "timeout_seconds": 10, "queue_timeout_seconds": 10, "max_attempts": 1},
    }
    highest = {
        **{"width": 2048, "height": 2048, "num_inference_steps": 150, "guidance_scale": 50},
        **{"priority": 9, "timeout_seconds": 86_400, "queue_timeout_seconds": 30 * 86_400},
        **{"max_attempts": 10, "labels": {f"{n:063}": "v" * 255 for n in range(16)}},
    }
    for fields in (lowest, highest):
        asked = (await create(deserted, **fields))["request"]
        assert {name: asked[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2020-02-29T00:00:00Z", "2020-02-29T00:00:00Z"),
        ("2020-01-31T18:00:00+05:30", "2020-01-31T12:30:00Z"),
        ("2020-01-31t18:00:00.123456789z", "2020-01-31T18:00:00.123456Z"),
        ("2020-01-31T00:00:00-23:59", "2020-01-31T23:59:00Z"),
    ],
)
async def test_start_time_with_any_zone_is_kept_in_utc(
    deserted: httpx.AsyncClient, given: str, kept: str
) -> None:
    assert (await create(deserted, start_at=given))["request"]["start_at"] == kept


async def test_times_are_in_utc_and_end_in_z(deserted: httpx.AsyncClient) -> None:
    assert (await create(deserted))["created_at"].endswith("Z")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        'application/json; charset="UTF-8"',
        "application/vnd.darkroom+json",
    ],
)
async def test_json_is_known_by_any_of_its_names(
    deserted: httpx.AsyncClient, content_type: str
) -> None:
    headers = {"content-type": content_type}
    job(await deserted.post("/v1/jobs", content=b'{"prompt":"a"}', headers=headers), 202)


async def test_byte_order_mark_is_ignored(deserted: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    body = b'\xef\xbb\xbf{"prompt":"a"}'
    job(await deserted.post("/v1/jobs", content=body, headers=headers), 202)


async def test_links_are_those_of_the_public_url_if_one_is_set(
    deserted_client: Client, store: LocalArtifactStore
) -> None:
    public = ApiSettings(public_url="https://pictures.example/darkroom")
    async with asking(create_app(deserted_client, store, public)) as api:
        response = await api.post("/v1/jobs", json={"prompt": "a"}, headers={"host": "evil.test"})
    told = job(response, 202)
    assert told["links"]["self"] == f"https://pictures.example/darkroom/v1/jobs/{told['id']}"
    assert "evil" not in response.text


@pytest.mark.parametrize("host", ["evil.test/path?", "a b", "x@y", "<b>", "evil.test#"])
async def test_host_that_is_no_host_stays_out_of_links(
    deserted: httpx.AsyncClient, host: str
) -> None:
    response = await deserted.post("/v1/jobs", json={"prompt": "a"}, headers={"host": host})
    job(response, 202)
    assert host not in response.text
    assert response.headers["location"].startswith("/v1/jobs/")


characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
words = st.text(characters, max_size=30)
scalars = (st.none() | st.booleans() | st.integers(-(2**70), 2**70) | words) | st.floats(
    allow_nan=False, allow_infinity=False
)
valid_requests = st.fixed_dictionaries(
    {"prompt": st.text(characters, min_size=1, max_size=60).filter(str.strip)},
    optional={
        "negative_prompt": words,
        "width": st.integers(64, 2048),
        "height": st.integers(64, 2048),
        "num_inference_steps": st.integers(1, 150),
        "guidance_scale": st.floats(0, 50),
        "seed": st.integers(0, 2**64 - 1),
        "engine_options": st.dictionaries(words, scalars | st.lists(scalars, max_size=3)),
        "priority": st.integers(0, 9),
        "timeout_seconds": st.integers(10, 86_400),
        "queue_timeout_seconds": st.integers(10, 30 * 86_400),
        "max_attempts": st.integers(1, 10),
        "labels": st.dictionaries(st.text(characters, min_size=1, max_size=63), words, max_size=3),
    },
)


@NOW_AND_THEN
@given(asked=valid_requests)
async def test_any_valid_request_is_accepted_and_echoed(
    deserted: httpx.AsyncClient, asked: dict[str, Any]
) -> None:
    told = job(await deserted.post("/v1/jobs", json=asked), 202)["request"]
    assert {name: told[name] for name in asked} == asked
