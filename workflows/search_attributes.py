"""The search attributes by which jobs are listed, and their registration."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    SearchAttributeUpdate,
    TypedSearchAttributes,
)
from temporalio.service import RPCError, RPCStatusCode

from workflows.job_record import JobRecord
from workflows.messages import ImageJobInput
from workflows.state_machine import JobState

JOB_STATE = SearchAttributeKey.for_keyword("JobState")
JOB_TYPE = SearchAttributeKey.for_keyword("JobType")
JOB_ENGINE = SearchAttributeKey.for_keyword("JobEngine")
JOB_TENANT = SearchAttributeKey.for_keyword("JobTenant")
JOB_WORKER = SearchAttributeKey.for_keyword("JobWorker")
JOB_PRIORITY = SearchAttributeKey.for_int("JobPriority")
JOB_UPDATED_AT = SearchAttributeKey.for_datetime("JobUpdatedAt")
JOB_LABELS = SearchAttributeKey.for_keyword_list("JobLabels")

_TYPES = {
    JOB_STATE.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    JOB_TYPE.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    JOB_ENGINE.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    JOB_TENANT.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    JOB_WORKER.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    JOB_PRIORITY.name: IndexedValueType.INDEXED_VALUE_TYPE_INT,
    JOB_UPDATED_AT.name: IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
    JOB_LABELS.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
}

# What every database of Temporal's finds again as it was given, in a list whose size is limited.
_PLAIN_LABEL = re.compile(r"[A-Za-z0-9_.:/@-]{1,48}")


def initial_search_attributes(
    request: ImageJobInput, created_at: datetime
) -> TypedSearchAttributes:
    """The attributes of a job that no worker has seen yet."""
    labels = label_entries(request.labels)
    return TypedSearchAttributes(
        [
            SearchAttributePair(JOB_STATE, JobState.PENDING.value),
            SearchAttributePair(JOB_TYPE, request.type),
            SearchAttributePair(JOB_ENGINE, request.engine),
            SearchAttributePair(JOB_TENANT, request.tenant),
            SearchAttributePair(JOB_PRIORITY, request.priority),
            SearchAttributePair(JOB_UPDATED_AT, created_at),
            *([SearchAttributePair(JOB_LABELS, labels)] if labels else []),
        ]
    )


def label_texts(labels: Mapping[str, str]) -> set[str]:
    """What a job's labels can be asked for by: `name`, and `name:value`."""
    return {*labels, *(f"{name}:{value}" for name, value in labels.items())}


def label_entry(text: str) -> str:
    """How one of those stands in the search attribute: as it is, or as a hash of it.

    All entries of a job share 2,048 bytes, and SQLite's index of lists takes a quotation mark for
    its own.
    """
    if _PLAIN_LABEL.fullmatch(text):
        return text
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:32]}"


def label_entries(labels: Mapping[str, str]) -> list[str]:
    """The search attribute of a job with these labels."""
    return sorted({label_entry(text) for text in label_texts(labels)})


def current_search_attributes(record: JobRecord) -> list[SearchAttributeUpdate[Any]]:
    """What to upsert after a transition, or a change of the priority."""
    updates: list[SearchAttributeUpdate[Any]] = [
        JOB_STATE.value_set(record.state.value),
        JOB_UPDATED_AT.value_set(record.updated_at),
    ]
    if record.status.priority is not None:
        updates.append(JOB_PRIORITY.value_set(record.status.priority))
    if record.status.worker:
        updates.append(JOB_WORKER.value_set(record.status.worker))
    return updates


def lacks_search_attributes(error: RPCError) -> bool:
    """Whether a call was refused because they are not registered."""
    is_refusal = error.status is RPCStatusCode.INVALID_ARGUMENT
    return is_refusal and "search attribute" in error.message


async def register_search_attributes(client: Client) -> None:
    """Register what is missing; safe to call from every process at every start."""
    operator = client.operator_service
    listed = await operator.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    missing = {name: kind for name, kind in _TYPES.items() if name not in listed.custom_attributes}
    if not missing:
        return
    try:
        await operator.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
        )
    except RPCError as error:
        # Another process registered them between the two calls.
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise
