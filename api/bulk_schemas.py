"""Bulk operations, as clients see them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from api.addresses import Addresses
from api.fields import Text, UtcTime
from api.queries import JobFilterQuery
from workflows.bulk_messages import BulkAction, BulkState, BulkView
from workflows.listing import JobFilter

# The lists' names of the filters that take several values.
_SEVERAL = {
    "state": "states",
    "type": "types",
    "engine": "engines",
    "worker": "workers",
    "priority": "priorities",
    "label": "labels",
}


def _with_single_values(schema: dict[str, Any]) -> None:
    """Document the examples, and that a list of one value can be the value itself."""
    schema["examples"] = [
        {"label": "customer:42", "message": "the customer has left"},
        {"state": ["PENDING", "PAUSED"], "created_before": "2026-11-01T00:00:00Z"},
    ]
    fields = schema["properties"]
    for name in _SEVERAL:
        told = {key: fields[name].pop(key) for key in ("title", "description")}
        fields[name] = told | {"anyOf": [fields[name]["items"], fields[name] | {"minItems": 1}]}


class BulkRequest(JobFilterQuery):
    """Which jobs, by the filters of `GET /v1/jobs`, and why; a filter takes a value or a list."""

    model_config = ConfigDict(json_schema_extra=_with_single_values)

    message: Text = Field(
        default="",
        max_length=1000,
        description="Kept with each job's transition, for whoever asks why",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _is_meant(cls, sent: Any, info: ValidationInfo) -> Any:
        """A list of a single value; and nothing that would silently be no filter at all."""
        if sent is None:
            raise ValueError("must not be null; leave it out for no such filter")
        if sent == []:
            raise ValueError("must have a value; leave it out for no such filter")
        if info.field_name == "running_longer_than_seconds" and type(sent) not in (int, float):
            raise ValueError("must be a number")
        return [sent] if info.field_name in _SEVERAL and not isinstance(sent, list) else sent


class BulkCountsResponse(BaseModel):
    """How many jobs were meant, and what became of each. They grow until `state` is DONE."""

    matched: int = Field(
        description="Jobs that were not final, and fitted the filters, at `cutoff_at`"
    )
    asked: int = Field(description="Asked for it, once each")
    unchanged: int = Field(
        description="Not asked: final by then, as wanted already, or asked for something newer"
    )
    refused: int = Field(description="Not asked: their state doesn't allow it")
    failed: int = Field(description="Could not be asked; see `failures`")


class BulkFailureResponse(BaseModel):
    """A job that could not be asked."""

    job_id: str = Field(description="The job's id")
    message: str = Field(description="Why")


class BulkResponse(BaseModel):
    """A bulk operation: what was asked, of which jobs, and how far it is."""

    id: str = Field(description="Its id; its workflow is `bulk-<id>`")
    action: BulkAction = Field(description="What the jobs are asked for")
    state: BulkState = Field(
        description="RUNNING until every job was asked, then DONE; STOPPED where an operator ended "
        "it before"
    )
    cutoff_at: UtcTime = Field(
        description="When it was accepted: it is about the jobs as they were then"
    )
    finished_at: UtcTime | None = Field(description="When it ended")
    filter: dict[str, Any] = Field(description="The filters, as `GET /v1/jobs` names them")
    message: str = Field(description="Why, as it was sent")
    counts: BulkCountsResponse = Field(description="How far it is")
    failures: list[BulkFailureResponse] = Field(description="The first twenty failures")
    links: dict[str, str] = Field(description="`self`")


def present_bulk(view: BulkView, addresses: Addresses) -> BulkResponse:
    """The public shape of a bulk operation."""
    progress = view.progress
    return BulkResponse(
        id=view.id,
        action=view.order.action,
        state=view.state,
        cutoff_at=view.cutoff_at,
        finished_at=view.finished_at,
        filter=_present_filter(view.order.filter),
        message=view.order.note.message,
        counts=BulkCountsResponse(**progress.model_dump(exclude={"failures"})),
        failures=[BulkFailureResponse(**f.model_dump()) for f in progress.failures],
        links={"self": addresses.bulk(view.id)},
    )


def _present_filter(wanted: JobFilter) -> dict[str, Any]:
    """Those that were given."""
    names = {field: name for name, field in _SEVERAL.items()}
    told = wanted.model_dump(mode="json", exclude={"tenant"})
    return {
        names.get(field, field): value for field, value in told.items() if value not in ([], None)
    }
