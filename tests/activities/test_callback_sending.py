"""Receivers that misbehave: each costs a bounded time and memory, and is told in words."""

import asyncio
import tracemalloc
from pathlib import Path

import pytest

from activities.callbacks.models import CallbackAttempt
from activities.callbacks.rules import CallbackRules
from activities.callbacks.sending import SendLimits
from tests.activities.callback_bench import bench_for
from tests.activities.receivers import (
    Behaviour,
    answering,
    receiving,
    repeating,
    resetting,
    saying,
    silent,
)
from tests.processes import until

SHORT = SendLimits(connect_seconds=20, exchange_seconds=0.3)
LONG = SendLimits(connect_seconds=60, exchange_seconds=60)
OK = b"HTTP/1.1 200 OK\r\n"


async def attempt_at(
    tmp_path: Path, behave: Behaviour, limits: SendLimits = LONG
) -> CallbackAttempt:
    async with receiving(behave) as receiver, asyncio.timeout(50):
        return await bench_for(tmp_path, receiver.rules, limits=limits).send(receiver.url())


@pytest.mark.parametrize(
    "behave",
    [
        silent,
        repeating(b"", b"H", 0.01),
        repeating(OK, b"x", 0.01),
        repeating(OK, b"x: y\r\n", 0.01),
        repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01),
        repeating(b"", b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n"),
    ],
    ids=["silence", "dripping status", "dripping header", "dripping headers", "100", "103"],
)
async def test_receiver_that_comes_to_no_answer_is_left_at_the_limit(
    tmp_path: Path, behave: Behaviour
) -> None:
    attempt = await attempt_at(tmp_path, behave, SHORT)
    assert (attempt.outcome, attempt.status_code) == ("failed", None)
    assert attempt.message == "no answer came within 0.3 s"
    assert attempt.duration_seconds >= 0.29


@pytest.mark.parametrize(
    "behave",
    [
        repeating(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.01),
        repeating(OK + b"Content-Length: 999999999\r\n\r\n", b"x", 0.01),
        repeating(OK + b"Content-Length: 999999999\r\n\r\n", b"x" * 65_536),
        repeating(OK + b"\r\n", b"x" * 65_536),
        saying(OK + b"Content-Length: 10\r\n\r\nshort"),
        saying(OK + b"Transfer-Encoding: chunked\r\n\r\nno size"),
        saying(OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nbad"),
        saying(OK + b"Content-Type: x; charset=\xff\r\n\r\n\xff"),
    ],
    ids=["dripping chunks", "drip", "flood", "no end", "cut short", "bad chunk", "gzip", "binary"],
)
async def test_status_counts_whatever_follows_it(tmp_path: Path, behave: Behaviour) -> None:
    attempt = await attempt_at(tmp_path, behave)
    assert (attempt.outcome, attempt.status_code, attempt.message) == ("delivered", 200, "")


@pytest.mark.parametrize("start", [b"", OK, OK + b"x: "], ids=["status", "headers", "header"])
async def test_endless_head_of_an_answer_is_cut_at_a_bounded_size(
    tmp_path: Path, start: bytes
) -> None:
    attempt = await attempt_at(tmp_path, repeating(start, b"x" * 65_536))
    assert (attempt.outcome, attempt.status_code) == ("failed", None)
    assert attempt.message == "the host gave no answer that is valid HTTP"


async def test_endless_headers_are_cut_at_a_bounded_size(tmp_path: Path) -> None:
    attempt = await attempt_at(tmp_path, repeating(OK, b"x: y\r\n" * 10_000))
    assert attempt.message == "the host gave no answer that is valid HTTP"


async def test_endless_body_is_hardly_read_and_takes_little_memory(tmp_path: Path) -> None:
    sent = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()
            sent += 65_536

    async with receiving(flood) as receiver:
        bench = bench_for(tmp_path, receiver.rules, limits=LONG)
        await bench.send(receiver.url())
        tracemalloc.start()
        try:
            await bench.send(receiver.url())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 4_000_000
    # Not more than lies in the buffers of two connections.
    assert 0 < sent < 40_000_000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        OK[:9],
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 -200 OK\r\n\r\n",
        b"HTTP/1.1 000 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        OK + b"bad header\r\n\r\n",
    ],
)
async def test_answer_that_is_not_http_fails_in_words(tmp_path: Path, data: bytes) -> None:
    attempt = await attempt_at(tmp_path, saying(data))
    assert (attempt.outcome, attempt.status_code) == ("failed", None)
    assert attempt.message == "the host gave no answer that is valid HTTP"


async def test_connection_that_breaks_fails_in_words(tmp_path: Path) -> None:
    attempt = await attempt_at(tmp_path, resetting)
    assert attempt.outcome == "failed"
    assert attempt.message in (
        "the connection broke before an answer came",
        "the host gave no answer that is valid HTTP",
    )


async def test_port_that_nobody_listens_at_fails_in_words(tmp_path: Path) -> None:
    async with receiving(answering(204)) as receiver:
        pass
    attempt = await bench_for(tmp_path, receiver.rules).send(receiver.url())
    assert (attempt.outcome, attempt.status_code) == ("failed", None)
    assert attempt.message == "no connection could be made to the host"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("Retry-After: 30", 30),
        ("retry-after:  30  ", 30),
        ("Retry-After: 999999999999", 86_400),
        ("Retry-After: -5", None),
        ("Retry-After: NaN", None),
        ("Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        ("Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Retry-After:", None),
        ("Retry-After: \xff", None),
        ("X-Retry-After: 30", None),
    ],
)
async def test_wish_for_patience_is_read_and_bounded(
    tmp_path: Path, header: str, seconds: float | None
) -> None:
    attempt = await attempt_at(tmp_path, answering(503, header))
    assert (attempt.status_code, attempt.retry_after_seconds) == (503, seconds)


async def test_cookies_and_connections_are_not_kept(tmp_path: Path) -> None:
    async with receiving(answering(200, "Set-Cookie: a=b", "Connection: keep-alive")) as receiver:
        bench = bench_for(tmp_path, receiver.rules)
        for _ in range(3):
            assert (await bench.send(receiver.url())).outcome == "delivered"
    assert receiver.connections == 3
    assert not any("cookie" in request.headers for request in receiver.requests)


async def test_proxies_of_the_environment_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving(answering(500)) as proxy, receiving(answering(204)) as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url(""))
        monkeypatch.setenv("no_proxy", "")
        attempt = await bench_for(tmp_path, receiver.rules).send(receiver.url())
    assert (attempt.outcome, proxy.connections) == ("delivered", 0)


async def test_ipv6_receiver_is_reached_with_brackets_in_its_header(tmp_path: Path) -> None:
    async with receiving(answering(204), host="::1") as receiver:
        attempt = await bench_for(tmp_path, receiver.rules).send(receiver.url())
    assert attempt.outcome == "delivered"
    assert receiver.requests[0].headers["host"] == f"[::1]:{receiver.port}"


async def test_attempt_that_is_cancelled_leaves_no_connection(tmp_path: Path) -> None:
    async with receiving(repeating(OK, b"x: y\r\n", 0.01)) as receiver:
        bench = bench_for(tmp_path, CallbackRules.parse(private_hosts=receiver.authority))
        sending = asyncio.create_task(bench.send(receiver.url()))
        await until(lambda: bool(receiver.requests))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        # Its writes fail as soon as nobody listens.
        await until(lambda: receiver.open_connections == 0)
