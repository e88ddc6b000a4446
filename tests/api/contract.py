"""What every answer of the API must keep to, whoever asked for it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.routing import compile_path

from workflows.state_machine import JobState, allowed_events

JOB_KEYS = {
    *("id", "type", "state", "done", "pending_request", "waiting_for", "progress"),
    *("attempt", "max_attempts", "worker", "priority", "tenant"),
    "timeout_seconds",
    *("created_at", "started_at", "updated_at", "finished_at", "deadline_at"),
    *("request", "result", "error", "predecessor_id", "successor_id", "chain"),
    "retry_of",
    "amendments",
    *("extensions", "transitions", "allowed_events", "links"),
}
DEFAULTS = {
    "negative_prompt": "",
    "width": 1024,
    "height": 1024,
    "num_inference_steps": 30,
    "guidance_scale": 7.5,
    "engine_options": {},
    "watermark": "keep",
    "label_terms_accepted": False,
    "priority": 5,
    "timeout_seconds": 1800,
    "queue_timeout_seconds": 86_400,
    "max_attempts": 3,
    "start_at": None,
    "labels": {},
    "callback_url": None,
    "callback_events": "final",
}
SECRETS = ("Traceback", 'File "', "/work/", "/tmp/", ".py", "pydantic", "temporalio", "RPCError")


def job(response: httpx.Response, status: int, state: JobState | None = None) -> dict[str, Any]:
    """The job that was answered, after checks of what holds for every job."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    told: dict[str, Any] = response.json()
    assert set(told) == JOB_KEYS
    assert state is None or told["state"] == state, told
    assert told["done"] is JobState(told["state"]).is_terminal
    assert told["allowed_events"] == list(allowed_events(JobState(told["state"])))
    assert [t["sequence"] for t in told["transitions"]] == list(
        range(1, len(told["transitions"]) + 1)
    )
    return told


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document that was answered; it tells nothing of our insides."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = json.loads(response.content.decode("utf-8", "strict"))
    assert told["code"] == code
    assert told["status"] == status
    assert told["type"] == f"urn:darkroom:problem:{code.lower().replace('_', '-')}"
    assert told["title"]
    assert told["detail"]
    assert not [secret for secret in SECRETS if secret in response.text]
    return told


def refused_fields(response: httpx.Response) -> set[str]:
    """Where the faults of a refused request are."""
    return {fault["pointer"] for fault in problem(response, 422, "INVALID_REQUEST")["errors"]}


def is_documented(app: FastAPI) -> Callable[[httpx.Response], Awaitable[None]]:
    """A hook that fails on any status or media type the OpenAPI document doesn't know."""

    async def check(response: httpx.Response) -> None:
        operation = _operation(app, response.request)
        if operation is None:
            return
        documented = operation["responses"].get(str(response.status_code))
        assert documented is not None, f"{response.request.url} gave {response.status_code}"
        media_type = response.headers.get("content-type", "").partition(";")[0]
        assert not media_type or media_type in documented["content"]

    return check


def _operation(app: FastAPI, request: httpx.Request) -> dict[str, Any] | None:
    method = "get" if request.method == "HEAD" else request.method.lower()
    for path, operations in app.openapi()["paths"].items():
        if compile_path(path)[0].match(request.url.path) and method in operations:
            operation: dict[str, Any] = operations[method]
            return operation
    return None
