"""CallbackActivities: one attempt to tell an application about its job."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from temporalio import activity

from activities.callbacks.book import CallbackBook
from activities.callbacks.errors import CallbackFailedError, CallbackRefusedError
from activities.callbacks.models import CallbackAttempt, SendCallbackInput
from activities.callbacks.rules import CallbackRules
from activities.callbacks.sending import Answer, CallbackSender
from activities.callbacks.signing import key_of, signed_headers
from activities.callbacks.urls import parse_callback_url
from activities.errors import clean_text

_MAX_MESSAGE_LENGTH = 500
_GONE = 410


class CallbackActivities:
    """Sends messages. Nothing that a receiver does makes an attempt raise, or last for long."""

    def __init__(
        self,
        rules: CallbackRules,
        book: CallbackBook,
        sender: CallbackSender | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._rules = rules
        self._book = book
        self._sender = sender or CallbackSender(rules)
        self._clock = clock

    @activity.defn
    async def send_callback(self, input: SendCallbackInput) -> CallbackAttempt:
        """One attempt; raises `WorkError` where the store can't be read: nothing was sent then."""
        at, begun = self._clock(), time.monotonic()
        attempt = await self._attempt(input, at)
        return attempt.model_copy(update={"duration_seconds": time.monotonic() - begun})

    async def _attempt(self, input: SendCallbackInput, at: datetime) -> CallbackAttempt:
        url = input.url if input.url is not None else await self._endpoint_of(input.tenant)
        if url is None:
            return CallbackAttempt(at=at, outcome="gone", message="there is no endpoint any more")
        try:
            answer = await self._send(url, input, at)
        except CallbackRefusedError as error:
            return _failed(at, f"the address is not allowed: it {error}")
        except CallbackFailedError as error:
            return _failed(at, str(error))
        return _attempt_of(at, answer)

    async def _endpoint_of(self, tenant: str) -> str | None:
        endpoint = await self._book.known_endpoint(tenant)
        return endpoint.url if endpoint else None

    async def _send(self, url: str, input: SendCallbackInput, at: datetime) -> Answer:
        parsed = parse_callback_url(url, self._rules)
        keys = [key_of(secret) for secret in await self._book.known_secrets(input.tenant)]
        body = input.body.encode()
        headers = signed_headers(keys, input.message_id, int(at.timestamp()), body)
        return await self._sender.send(parsed, headers, body)


def _failed(at: datetime, message: str) -> CallbackAttempt:
    return CallbackAttempt(
        at=at, outcome="failed", message=clean_text(message)[:_MAX_MESSAGE_LENGTH]
    )


def _attempt_of(at: datetime, answer: Answer) -> CallbackAttempt:
    status = answer.status_code
    if 200 <= status < 300:
        return CallbackAttempt(at=at, outcome="delivered", status_code=status)
    if status == _GONE:
        message = "the receiver wants no more messages: it answered 410"
        return CallbackAttempt(at=at, outcome="gone", status_code=status, message=message)
    redirect = ", and redirects are not followed" if 300 <= status < 400 else ""
    return CallbackAttempt(
        at=at,
        outcome="failed",
        status_code=status,
        message=f"the receiver answered {status}{redirect}",
        retry_after_seconds=answer.retry_after_seconds,
    )
