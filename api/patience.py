"""The HTTP protocol of `python -m api`: uvicorn's, with a limit for requests that don't arrive."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Whoever sends headers drop by drop would else hold a connection for ever.
HEAD_WITHIN_SECONDS = 20


class PatientProtocol(H11Protocol):
    """Closes a connection on which the head of a request is not complete in time."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._forget_head()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        """One timer for each head: more of the same head gets no more time."""
        if self.conn.their_state is not h11.IDLE:
            self._forget_head()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_WITHIN_SECONDS, self._give_up)

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self.transport.close()
