"""Telling an outage of Temporal from everything else, and telling it soon."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from api.problems import TemporalUnavailable
from workflows.reading import JobNotFoundError
from workflows.search_attributes import lacks_search_attributes, register_search_attributes

logger = logging.getLogger("darkroom.api")

ANSWER_WITHIN = timedelta(seconds=5)

# So begins the RuntimeError of a lazy client that has never been connected.
_NOT_CONNECTED = "Failed client connect"
# About this one call, and not about Temporal.
_ANSWERS = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)


@asynccontextmanager
async def answered(within: timedelta = ANSWER_WITHIN) -> AsyncIterator[None]:
    """Raise `TemporalUnavailable` unless Temporal answers what is asked inside, in time.

    A frozen server takes calls and never answers them, and the SDK would wait for ever.
    """
    try:
        async with asyncio.timeout(within.total_seconds()):
            yield
    except (TimeoutError, RPCError, RuntimeError, JobNotFoundError) as error:
        if not is_outage(error):
            raise
        logger.warning("Temporal did not answer: %s", ascii(str(error) or "no answer in time"))
        raise TemporalUnavailable from error


@asynccontextmanager
async def queried(client: Client, within: timedelta) -> AsyncIterator[None]:
    """`answered`, for queries by our search attributes: registers them where they are lacking.

    That is where the server's database is new, and younger than this process.
    """
    try:
        async with answered(within):
            yield
    except RPCError as error:
        if not lacks_search_attributes(error):
            raise
        async with answered():
            await register_search_attributes(client)
        raise TemporalUnavailable from error


def is_outage(error: BaseException | None) -> bool:
    """Whether Temporal can't be used now, by whatever way that shows."""
    match error:
        case TimeoutError():
            return True
        case JobNotFoundError():
            return is_outage(error.__cause__)
        case RPCError():
            return error.status not in _ANSWERS or _lacks_namespace(error)
        case RuntimeError():
            return str(error).startswith(_NOT_CONNECTED)
    return False


def _lacks_namespace(error: RPCError) -> bool:
    """A missing namespace is told by the same status as a missing workflow."""
    name = NamespaceNotFoundFailure.DESCRIPTOR.full_name
    return any(detail.TypeName() == name for detail in error.grpc_status.details)
