"""Bulk operations of one caller: accepting them, and telling how far they are."""

from datetime import UTC, datetime
from uuid import uuid4

from fastapi.exceptions import RequestValidationError
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from api.bulk_schemas import BulkRequest
from api.callers import Caller
from api.idempotency import Intent
from api.outage import answered
from api.problems import BulkNotFound, KeyReused, TemporalUnavailable
from api.queries import JobFilterQuery
from api.room import Room
from workflows.bulk_messages import (
    BulkAction,
    BulkOrder,
    BulkProgress,
    BulkView,
    may_be_bulk_id,
)
from workflows.bulk_reading import BulkNotFoundError, read_bulk, start_bulk
from workflows.notes import ControlNote


def merged(query: JobFilterQuery, body: BulkRequest | None) -> tuple[JobFilterQuery, str]:
    """The filters of both, and the message. One that is in both might mean either, or both."""
    if body is None:
        return query, ""
    sent = body.model_fields_set - {"message"}
    twice = sorted(sent & query.model_fields_set)
    if twice:
        message = "is given in the query, too; give it in one place"
        raise RequestValidationError([{"loc": ("body", name), "msg": message} for name in twice])
    filters = query.model_copy(update={name: getattr(body, name) for name in sent})
    return filters, body.message


class Bulks:
    """The bulk operations of one caller."""

    def __init__(self, client: Client, caller: Caller, room: Room) -> None:
        self._client = client
        self._caller = caller
        self._room = room

    async def accept(
        self, action: BulkAction, asked: JobFilterQuery, message: str, key: str | None
    ) -> tuple[BulkView, bool]:
        """Start a bulk operation, or give the one that the same request has started.

        Once this returns it can't be lost. The second value is whether it is an earlier one.
        """
        tenant = self._caller.tenant
        note = ControlNote(source=self._caller.source, message=message)
        order = BulkOrder(action=action, filter=asked.of_tenant(tenant), note=note)
        bulk_id = uuid4().hex
        if key is not None:
            intent = Intent.of(key, tenant, order, "bulk")
            bulk_id = intent.job_id
            order = order.model_copy(update={"fingerprint": intent.fingerprint})
        try:
            async with self._room.for_one(tenant), answered():
                await start_bulk(self._client, bulk_id, order)
        except WorkflowAlreadyStartedError:
            return await self._replayed(bulk_id, order), True
        return await self._read_started(bulk_id, order), False

    async def read(self, bulk_id: str) -> BulkView:
        """The bulk operation, or `BulkNotFound`, which another tenant's is too."""
        if not may_be_bulk_id(bulk_id):
            raise BulkNotFound
        try:
            async with answered():
                view = await read_bulk(self._client, bulk_id)
        except (BulkNotFoundError, RPCError) as error:
            raise BulkNotFound from error
        if view.order.filter.tenant != self._caller.tenant:
            raise BulkNotFound
        return view

    async def _replayed(self, bulk_id: str, order: BulkOrder) -> BulkView:
        view = await self.read(bulk_id)
        if view.order.fingerprint != order.fingerprint:
            raise KeyReused
        return view

    async def _read_started(self, bulk_id: str, order: BulkOrder) -> BulkView:
        try:
            return await self.read(bulk_id)
        except TemporalUnavailable:
            # It has started: whoever asked must learn its id.
            return BulkView(
                id=bulk_id,
                state="RUNNING",
                order=order,
                cutoff_at=datetime.now(UTC),
                finished_at=None,
                progress=BulkProgress(),
            )
