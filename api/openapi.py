"""The OpenAPI document: what FastAPI derives, with the errors that every operation can give."""

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from api.authentication import needs_key
from api.job_schemas import TransitionEvent
from api.problem_documents import ProblemDocument

PROBLEM_REF = f"#/components/schemas/{ProblemDocument.__name__}"


def problem(description: str) -> dict[str, Any]:
    """How an error is documented."""
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": {"$ref": PROBLEM_REF}}},
    }


RETRY_AFTER = {
    "description": "Seconds until another look is worth while",
    "schema": {"type": "integer"},
}
UNAVAILABLE = {
    **problem("Temporal or the artifact store is out of reach for now"),
    "headers": {"Retry-After": RETRY_AFTER},
}
_SCHEME = "key"
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, from `python -m api keys add TENANT`; needed once there is one",
}
_REFUSALS = {
    "401": {
        **problem("There is no API key, or none that is valid (`UNAUTHENTICATED`)"),
        "headers": {"WWW-Authenticate": {"description": "`Bearer`", "schema": {"type": "string"}}},
    },
    "429": {
        **problem(
            "The tenant has too many requests at once (`RATE_LIMITED`), or too many jobs that "
            "wait (`TOO_MANY_JOBS`) or bulk operations that are not over (`TOO_MANY_BULKS`)"
        ),
        "headers": {"Retry-After": RETRY_AFTER},
    },
    "503": UNAVAILABLE,
}
FAULT = problem("The service failed; the fault was logged")


class DescribedApp(FastAPI):
    """An application whose document has the schemas of what FastAPI knows no model of."""

    def openapi(self) -> dict[str, Any]:
        """The document; made once. Problems and events have media types of their own."""
        if self.openapi_schema is None:
            document = super().openapi()
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(_own_schemas())
            _describe_access(document)
            _keep_to_what_is_sent(document)
        return super().openapi()


def _describe_access(document: dict[str, Any]) -> None:
    """What every operation has in common that needs a key, where there are any."""
    document["components"]["securitySchemes"] = {_SCHEME: _BEARER}
    for path, operations in document["paths"].items():
        if not needs_key(path):
            continue
        for operation in operations.values():
            # Nothing at all is enough as long as there are no keys.
            operation["security"] = [{_SCHEME: []}, {}]
            for status, response in _REFUSALS.items():
                operation["responses"].setdefault(status, response)


def _keep_to_what_is_sent(document: dict[str, Any]) -> None:
    """FastAPI takes what is sent for something it checks."""
    for operations in document.get("webhooks", {}).values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _own_schemas() -> dict[str, Any]:
    _, definitions = models_json_schema(
        [(ProblemDocument, "serialization"), (TransitionEvent, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas
