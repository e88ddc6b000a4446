"""The OpenAPI document: valid, complete, and true."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from temporalio.client import Client

from activities.artifacts import LocalArtifactStore
from api.app import create_app
from api.settings import ApiSettings
from tests.api.contract import job, problem

Document = dict[str, Any]


@pytest.fixture
def document(client: Client, store: LocalArtifactStore) -> Document:
    return create_app(client, store, ApiSettings()).openapi()


def operations(document: Document) -> Iterator[tuple[str, Document]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def validator(document: Document, name: str) -> Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return Draft202012Validator(schema)


async def test_document_is_served_and_valid(deserted: httpx.AsyncClient) -> None:
    response = await deserted.get("/openapi.json")
    assert response.status_code == 200
    assert response.json()["openapi"].startswith("3.1")
    validate(response.json())


def test_operations_have_stable_readable_ids(document: Document) -> None:
    assert {name: operation["operationId"] for name, operation in operations(document)} == {
        "POST /v1/jobs": "create_job",
        "POST /v1/batches": "create_jobs",
        "POST /v1/bulk/cancel": "cancel_jobs",
        "POST /v1/bulk/pause": "pause_jobs",
        "POST /v1/bulk/resume": "resume_jobs",
        "GET /v1/bulk/{bulk_id}": "read_bulk",
        "GET /v1/jobs": "list_jobs",
        "GET /v1/jobs/{job_id}": "read_job",
        "PATCH /v1/jobs/{job_id}": "amend_job",
        "POST /v1/jobs/{job_id}/retry": "retry_job",
        "GET /v1/jobs/{job_id}/events": "listen_to_job",
        "GET /v1/jobs/{job_id}/image": "fetch_image",
        "POST /v1/jobs/{job_id}/watermark-removal": "remove_label",
        "POST /v1/jobs/{job_id}/cancel": "cancel_job",
        "POST /v1/jobs/{job_id}/pause": "pause_job",
        "POST /v1/jobs/{job_id}/resume": "resume_job",
        "GET /v1/jobs/{job_id}/callbacks": "list_callbacks",
        "POST /v1/jobs/{job_id}/callbacks/redeliver": "redeliver_callbacks",
        "POST /v1/jobs/{job_id}/callbacks/{callback_id}/redeliver": "redeliver_callback",
        "GET /v1/callback-endpoint": "read_endpoint",
        "PUT /v1/callback-endpoint": "set_endpoint",
        "DELETE /v1/callback-endpoint": "remove_endpoint",
        "GET /v1/callback-secret": "read_secret",
        "POST /v1/callback-secret/rotate": "rotate_secret",
        "POST /api/task/submit": "submit_task",
        "GET /api/task/{job_id}/status": "read_task",
        "POST /api/task/{job_id}/cancel": "cancel_task",
        "GET /v1/stats": "read_stats",
        "GET /v1/workers": "list_workers",
        "GET /v1/engines": "list_engines",
        "GET /healthz": "healthz",
        "GET /readyz": "readyz",
    }


def test_everything_is_described(document: Document) -> None:
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation["description"], name
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (name, parameter)
        for status, response in operation["responses"].items():
            assert response["description"] not in {"", "Successful Response"}, (name, status)
            for header in response.get("headers", {}).values():
                assert header["description"], (name, status)
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name
        for field, content in schema.get("properties", {}).items():
            assert content.get("description"), f"{name}.{field}"


def test_every_error_is_a_problem_document(document: Document) -> None:
    reference = {"$ref": "#/components/schemas/ProblemDocument"}
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) < 400 or (name, status) == ("GET /readyz", "503"):
                continue
            content = response["content"]
            assert content == {"application/problem+json": {"schema": reference}}, (name, status)


def test_every_operation_but_health_says_what_a_key_is_for(document: Document) -> None:
    [(scheme, described)] = document["components"]["securitySchemes"].items()
    assert (described["type"], described["scheme"]) == ("http", "bearer")
    for name, operation in operations(document):
        is_open = name in {"GET /healthz", "GET /readyz"}
        assert operation.get("security") == (None if is_open else [{scheme: []}, {}]), name
        assert ({"401", "429"} <= operation["responses"].keys()) is not is_open, name
    image = document["paths"]["/v1/jobs/{job_id}/image"]["get"]
    assert "403" in image["responses"]
    assert {"expires", "signature"} <= {parameter["name"] for parameter in image["parameters"]}


def test_schemas_of_the_framework_are_gone(document: Document) -> None:
    assert "ProblemDocument" in document["components"]["schemas"]
    assert not {"HTTPValidationError", "ValidationError"} & set(document["components"]["schemas"])


def test_body_of_a_new_job_is_documented(document: Document) -> None:
    body = document["paths"]["/v1/jobs"]["post"]["requestBody"]
    assert body["required"] is True
    assert set(body["content"]) == {"application/json"}
    schema = document["components"]["schemas"]["CreateJobRequest"]
    assert schema["required"] == ["prompt"]
    assert schema["additionalProperties"] is False
    fields = schema["properties"]
    assert (fields["prompt"]["minLength"], fields["prompt"]["maxLength"]) == (1, 8000)
    assert (fields["width"]["minimum"], fields["width"]["maximum"]) == (64, 2048)
    assert {"type": "string", "format": "date-time"}.items() <= (
        fields["start_at"]["anyOf"][0].items()
    )


async def test_examples_fit_their_schemas_and_work(
    document: Document, deserted: httpx.AsyncClient
) -> None:
    for name, schema in document["components"]["schemas"].items():
        for example in schema.get("examples", []):
            validator(document, name).validate(example)
    for example in document["components"]["schemas"]["CreateJobRequest"]["examples"]:
        job(await deserted.post("/v1/jobs", json=example), 202)


async def test_answers_fit_their_schemas(document: Document, deserted: httpx.AsyncClient) -> None:
    told = job(await deserted.post("/v1/jobs", json={"prompt": "a"}), 202)
    validator(document, "JobResponse").validate(told)
    refused = problem(await deserted.post("/v1/jobs", json={}), 422, "INVALID_REQUEST")
    validator(document, "ProblemDocument").validate(refused)
    validator(document, "ReadinessResponse").validate((await deserted.get("/readyz")).json())
    assert validator(document, "CreateJobRequest").is_valid(told["request"])


def test_public_url_is_the_server_if_one_is_set(client: Client, store: LocalArtifactStore) -> None:
    public = ApiSettings(public_url="https://pictures.example")
    servers = create_app(client, store, public).openapi()["servers"]
    assert servers == [{"url": "https://pictures.example"}]
