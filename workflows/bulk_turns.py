"""In which order the bulks of one tenant are carried out."""

import asyncio
import time
from collections.abc import Mapping
from types import MappingProxyType

from temporalio.client import Client

from workflows.bulk_messages import BulkAction, CarryOutInput
from workflows.bulk_reading import OpenBulk, open_bulks
from workflows.options import BULK_CALL_TIMEOUT

# What comes later takes back what comes earlier; nothing takes a cancel back.
_OPPOSITES: Mapping[BulkAction, BulkAction] = MappingProxyType(
    {"pause": "resume", "resume": "pause"}
)
_LOOK_EVERY_SECONDS = 1.0


class BulkTurns:
    """Whose turn it is, of all bulks of one worker.

    One look at Temporal is for all that wait: looks of their own, by hundreds of bulks, would keep
    its visibility so busy that nobody else is answered.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looking = asyncio.Lock()
        self._open: list[OpenBulk] = []
        self._began = self._ended = float("-inf")

    async def has_come(self, input: CarryOutInput, visible_since: float) -> bool:
        """Whether no older bulk of the tenant has yet to ask for the opposite.

        The younger one must not go before it: it would find nothing to change, and the older one's
        word would be the last. Only a look that begins after `visible_since`, by the monotonic
        clock, tells of all that were accepted before it.
        """
        tenant, opposite = input.order.filter.tenant, _OPPOSITES.get(input.order.action)
        if opposite is None:
            return True
        return not any(
            (bulk.tenant, bulk.action) == (tenant, opposite) and bulk.cutoff_at < input.cutoff_at
            for bulk in await self._look(visible_since)
        )

    async def _look(self, since: float) -> list[OpenBulk]:
        # Whoever waits here uses what another one has found.
        async with self._looking:
            # As long as the last one took, to leave the server to others half the time.
            pause = max(_LOOK_EVERY_SECONDS, self._ended - self._began)
            if self._began < since or time.monotonic() - self._ended >= pause:
                began = time.monotonic()
                self._open = await open_bulks(self._client, BULK_CALL_TIMEOUT)
                self._began, self._ended = began, time.monotonic()
            return self._open
