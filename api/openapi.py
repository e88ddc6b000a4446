"""The OpenAPI document: what FastAPI derives, with the errors that every operation can give."""

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from api.problems import ProblemDocument
from api.schemas import TransitionEvent

PROBLEM_REF = f"#/components/schemas/{ProblemDocument.__name__}"


def problem(description: str) -> dict[str, Any]:
    """How an error is documented."""
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": {"$ref": PROBLEM_REF}}},
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
        return super().openapi()


def _own_schemas() -> dict[str, Any]:
    _, definitions = models_json_schema(
        [(ProblemDocument, "serialization"), (TransitionEvent, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas
