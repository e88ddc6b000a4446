"""One message to one receiver: a POST whose answer is read no further than its status."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import httpcore

from activities.callbacks.connecting import CheckedNetwork
from activities.callbacks.errors import CallbackFailedError
from activities.callbacks.resolving import Resolver, SystemResolver
from activities.callbacks.retry_after import parse_retry_after
from activities.callbacks.rules import CallbackRules
from activities.callbacks.urls import CallbackUrl
from activities.version import VERSION

USER_AGENT = f"Darkroom/{VERSION}"

# What is left of an answer after its status is of no use, but a receiver that is cut short while
# it writes may take the message for undelivered.
_MAX_BODY_BYTES = 4096
_MAX_BODY_SECONDS = 1.0


@dataclass(frozen=True)
class SendLimits:
    """How long a connection may take (its TLS handshake as long again), and all of it."""

    connect_seconds: float = 5.0
    exchange_seconds: float = 15.0


@dataclass(frozen=True)
class Answer:
    """What a receiver said."""

    status_code: int
    retry_after_seconds: float | None


class CallbackSender:
    """Sends messages, each over a connection of its own, and follows no redirect.

    Takes nothing from the environment but the certificates that the system trusts: no proxies, no
    credentials of `.netrc`.
    """

    def __init__(
        self,
        rules: CallbackRules,
        *,
        resolver: Resolver | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
        limits: SendLimits = SendLimits(),
    ) -> None:
        self._rules = rules
        self._resolver = resolver or SystemResolver(limits.connect_seconds)
        self._network = network or httpcore.AnyIOBackend()
        # Made once: to read all certificates takes longer than a connection.
        self._tls = tls or httpcore.default_ssl_context()
        self._limits = limits

    async def send(self, url: CallbackUrl, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send, or raise `CallbackRefusedError` or `CallbackFailedError`."""
        limit = self._limits.exchange_seconds
        try:
            async with asyncio.timeout(limit):
                return await self._exchange(url, headers, body)
        except (TimeoutError, httpcore.ReadTimeout, httpcore.WriteTimeout) as error:
            raise CallbackFailedError(f"no answer came within {limit:g} s") from error
        except httpcore.ConnectTimeout as error:
            raise CallbackFailedError("the host did not finish the TLS handshake") from error
        # Whatever else goes wrong with the connection itself was told by `CheckedNetwork`.
        except httpcore.ConnectError as error:
            raise CallbackFailedError(_tls_failure(error)) from error
        except httpcore.ProtocolError as error:
            raise CallbackFailedError("the host gave no answer that is valid HTTP") from error
        except (httpcore.NetworkError, OSError) as error:
            raise CallbackFailedError("the connection broke before an answer came") from error

    async def _exchange(self, url: CallbackUrl, headers: Mapping[str, str], body: bytes) -> Answer:
        network = CheckedNetwork(url, self._rules, self._resolver, self._network)
        pool = httpcore.AsyncConnectionPool(
            ssl_context=self._tls, max_keepalive_connections=0, network_backend=network
        )
        async with (
            pool,
            pool.stream(
                "POST",
                httpcore.URL(
                    scheme=url.scheme, host=url.host.text, port=url.port, target=url.target
                ),
                headers=_all_headers(url, headers),
                content=body,
                extensions={"timeout": {"connect": self._limits.connect_seconds}},
            ) as response,
        ):
            await _drop_body(response)
            return Answer(response.status, _retry_after(response.headers))


def _all_headers(url: CallbackUrl, headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        ("Host", url.authority),
        ("Content-Type", "application/json"),
        ("User-Agent", USER_AGENT),
        ("Connection", "close"),
        *headers.items(),
    ]


async def _drop_body(response: httpcore.Response) -> None:
    """Read a little of it; whatever happens here, the status has been said."""
    left = _MAX_BODY_BYTES
    with suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError, OSError):
        async with asyncio.timeout(_MAX_BODY_SECONDS):
            async for part in response.aiter_stream():
                left -= len(part)
                if left <= 0:
                    break


def _retry_after(headers: Sequence[tuple[bytes, bytes]]) -> float | None:
    for name, value in headers:
        if name.lower() == b"retry-after":
            return parse_retry_after(value.strip(), datetime.now(UTC))
    return None


def _tls_failure(error: httpcore.ConnectError) -> str:
    """Why no TLS was agreed on, as far as it helps whoever runs the receiver."""
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate of the host is not trusted: {cause.verify_message}"
    return "no TLS connection could be agreed on with the host"
