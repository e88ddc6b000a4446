"""What a bulk writes on its signals, so that a job's history tells who asked for what, and when."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from temporalio.api.common.v1 import Header
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionSignaledEventAttributes
from temporalio.contrib.pydantic import pydantic_data_converter

from activities.values import Model
from workflows.names import SIGNAL_CANCEL, SIGNAL_PAUSE, SIGNAL_RESUME

_NAME = "bulk"
_WISHES = (SIGNAL_CANCEL, SIGNAL_PAUSE, SIGNAL_RESUME)
# Headers pass no codec.
_CONVERTER = pydantic_data_converter.payload_converter


class BulkMark(Model):
    """The bulk that a signal comes from. What it asks for was asked at `cutoff_at`."""

    bulk_id: str
    cutoff_at: datetime

    def as_header(self) -> Header:
        """A signal's header; no job reads it."""
        [payload] = _CONVERTER.to_payloads([self])
        return Header(fields={_NAME: payload})


async def askers_since(
    events: AsyncIterator[HistoryEvent], since: datetime
) -> list[BulkMark | None]:
    """Who asked a job for another state from a time on: a bulk, or somebody else (None).

    A bulk's signal may arrive long after the bulk was accepted, and after others' that are newer.
    Amendments, and what no job knows, ask for no state.
    """
    askers = []
    async for event in events:
        sent = event.workflow_execution_signaled_event_attributes
        if sent.signal_name in _WISHES:
            mark = _mark_on(sent)
            at = mark.cutoff_at if mark else event.event_time.ToDatetime(tzinfo=UTC)
            if at >= since:
                askers.append(mark)
    return askers


def _mark_on(sent: WorkflowExecutionSignaledEventAttributes) -> BulkMark | None:
    if _NAME not in sent.header.fields:
        return None
    try:
        return BulkMark.model_validate(_CONVERTER.from_payload(sent.header.fields[_NAME], BulkMark))
    except Exception:  # noqa: BLE001 - anybody can send a signal, with any header
        return None
