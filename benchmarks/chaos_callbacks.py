"""The receiver of chaos' callbacks, as unreliable as all else, and what must have arrived."""

import asyncio
import json
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
from standardwebhooks.webhooks import Webhook

from benchmarks.chaos_invariants import Violations
from tests.activities.receivers import Behaviour, Receiver, answering, receiving, resetting
from workflows.state_machine import JobState

Json = dict[str, Any]

# How often it takes what it gets, and how it refuses otherwise.
TAKES = 0.8
REFUSALS = (answering(503), answering(302, "Location: /elsewhere"), resetting)
ARRIVE_SECONDS = 180.0


def moody(rng: random.Random) -> Behaviour:
    """Take most of what comes."""

    async def behave(writer: asyncio.StreamWriter) -> None:
        behaviour = answering(204) if rng.random() < TAKES else rng.choice(REFUSALS)
        await behaviour(writer)

    return behave


@asynccontextmanager
async def receiver(rng: random.Random) -> AsyncIterator[Receiver]:
    """A receiver while inside."""
    async with receiving(moody(rng)) as receiver:
        yield receiver


async def check_callbacks(
    violations: Violations, api: httpx.AsyncClient, jobs: list[str], receiver: Receiver
) -> None:
    """Every transition that was to be told was, always in the same words, and nothing else was."""
    expected: dict[str, str] = {}
    for job_id in jobs:
        job = (await api.get(f"/v1/jobs/{job_id}")).json()
        if job["request"]["callback_url"] is not None:
            expected |= await _expected(violations, api, job)
    await _arrive(violations, api, expected, receiver)
    _check_words(violations, await _secret(api), expected, receiver)


async def _expected(violations: Violations, api: httpx.AsyncClient, job: Json) -> dict[str, str]:
    """The ids of the callbacks of a job, each with its job's."""
    told = (await api.get(f"/v1/jobs/{job['id']}/callbacks")).json()["callbacks"]
    wants_all = job["request"]["callback_events"] == "all"
    wanted = [
        t["sequence"]
        for t in job["transitions"]
        if wants_all or JobState(t["to_state"]).is_terminal
    ]
    name = f"job {job['id']}"
    violations.expect([one["sequence"] for one in told] == wanted, f"{name}: callbacks {told}")
    for one in told:
        violations.expect(one["state"] is not None, f"{name}: nobody delivers {one['id']}")
    return {one["id"]: job["id"] for one in told}


def _arrived(receiver: Receiver) -> set[str]:
    return {received.headers["webhook-id"] for received in receiver.requests}


async def _arrive(
    violations: Violations, api: httpx.AsyncClient, expected: dict[str, str], receiver: Receiver
) -> None:
    """Wait for what is still to be delivered; what waits for its next attempt is hurried."""
    deadline = time.monotonic() + ARRIVE_SECONDS
    while (missing := expected.keys() - _arrived(receiver)) and time.monotonic() < deadline:
        for callback_id in missing:
            path = f"/v1/jobs/{expected[callback_id]}/callbacks/{callback_id}/redeliver"
            await api.post(path)
        await asyncio.sleep(2)
    violations.expect(not missing, f"never arrived: {sorted(missing)}")


async def _secret(api: httpx.AsyncClient) -> str:
    secret: str = (await api.get("/v1/callback-secret")).json()["secret"]
    return secret


def _check_words(
    violations: Violations,
    secret: str,
    expected: dict[str, str],
    receiver: Receiver,
) -> None:
    bodies: defaultdict[str, set[bytes]] = defaultdict(set)
    for received in receiver.requests:
        callback_id = received.headers["webhook-id"]
        bodies[callback_id].add(received.body)
        job_id = expected.get(callback_id)
        told = json.loads(received.body)["data"]
        violations.expect(told["id"] == job_id, f"{callback_id} tells of {told['id']}")
        violations.expect(_is_signed(secret, received.headers, received.body), callback_id)
    for callback_id, words in bodies.items():
        violations.expect(len(words) == 1, f"{callback_id} came in {len(words)} versions")


def _is_signed(secret: str, headers: dict[str, str], body: bytes) -> bool:
    """Whether it is signed; whether that was lately is no question after a long run."""
    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    signed = Webhook(secret).sign(headers["webhook-id"], at, body.decode())
    return signed in headers["webhook-signature"].split(" ")
