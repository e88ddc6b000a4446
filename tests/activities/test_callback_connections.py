"""Names that change, and connections that end elsewhere: nothing is sent to where it may not go."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpcore
import pytest

from activities.callbacks.addresses import Address
from activities.callbacks.checking import SubmitCheck
from activities.callbacks.rules import CallbackRules
from activities.callbacks.sending import SendLimits
from tests.activities.callback_bench import PUBLIC, FakeNetwork, FakeResolver, bench_for
from tests.activities.receivers import answering, receiving

RULES = CallbackRules()
REFUSED = "the address is not allowed: it must lead to public addresses only; this one does not"


async def test_name_that_changes_after_submit_is_refused_and_nothing_reaches_it(
    tmp_path: Path,
) -> None:
    async with receiving(answering(204)) as receiver:
        resolver = FakeResolver([PUBLIC], ["127.0.0.1"])
        network = FakeNetwork(receiver)
        await SubmitCheck(RULES, resolver).check_at_submit("http://example.com/")
        attempt = await bench_for(tmp_path, RULES, resolver=resolver, network=network).send(
            "http://example.com/"
        )
    assert (attempt.outcome, attempt.message) == ("failed", REFUSED)
    assert (network.asked, receiver.connections) == ([], 0)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "fe80::1"],
)
async def test_name_with_any_forbidden_address_is_refused_as_a_whole(
    tmp_path: Path, address: str
) -> None:
    async with receiving(answering(204)) as receiver:
        network = FakeNetwork(receiver)
        resolver = FakeResolver([PUBLIC, address])
        bench = bench_for(tmp_path, RULES, resolver=resolver, network=network)
        attempt = await bench.send("http://example.com/")
    assert (attempt.message, network.asked) == (REFUSED, [])


async def test_connection_goes_to_the_checked_address_and_is_dropped_where_it_ends_elsewhere(
    tmp_path: Path,
) -> None:
    async with receiving(answering(204)) as receiver:
        network, resolver = FakeNetwork(receiver), FakeResolver([PUBLIC])
        bench = bench_for(tmp_path, RULES, resolver=resolver, network=network)
        attempt = await bench.send("http://example.com/")
    assert attempt.outcome == "failed"
    assert attempt.message == "the connection led elsewhere than to the host"
    assert network.asked == [(PUBLIC, 80)]
    assert resolver.asked == ["example.com"]
    assert receiver.requests == []


async def test_name_is_resolved_once_for_a_connection(tmp_path: Path) -> None:
    async with receiving(answering(204), name="receiver.test") as receiver:
        resolver = FakeResolver(["127.0.0.1"], [PUBLIC])
        attempt = await bench_for(tmp_path, receiver.rules, resolver=resolver).send(receiver.url())
    assert (attempt.outcome, resolver.asked) == ("delivered", ["receiver.test"])
    assert receiver.requests[0].headers["host"] == receiver.authority


async def test_next_address_is_tried_where_one_does_not_answer(tmp_path: Path) -> None:
    async with receiving(answering(204), name="receiver.test") as receiver:
        resolver = FakeResolver(["::1", "127.0.0.1"])
        attempt = await bench_for(tmp_path, receiver.rules, resolver=resolver).send(receiver.url())
    assert attempt.outcome == "delivered"


async def test_name_that_can_not_be_resolved_fails_in_words(tmp_path: Path) -> None:
    bench = bench_for(tmp_path, RULES, resolver=FakeResolver([]))
    attempt = await bench.send("https://example.com/")
    assert attempt.outcome == "failed"
    assert attempt.message == "the name of the host could not be resolved"


class HungResolver:
    """Never answers."""

    async def resolve(self, name: str) -> Sequence[Address]:
        """See `Resolver.resolve`."""
        await asyncio.Event().wait()
        raise AssertionError(name)


class HungNetwork(httpcore.AsyncNetworkBackend):
    """Where every packet is lost."""

    async def connect_tcp(self, *_: object, **__: object) -> httpcore.AsyncNetworkStream:
        """See `AsyncNetworkBackend.connect_tcp`."""
        await asyncio.Event().wait()
        raise AssertionError


async def test_connection_that_is_never_made_is_given_up_at_its_limit(tmp_path: Path) -> None:
    limits = SendLimits(connect_seconds=0.2, exchange_seconds=60)
    for resolver, network in (
        (HungResolver(), httpcore.AnyIOBackend()),
        (FakeResolver([PUBLIC]), HungNetwork()),
    ):
        bench = bench_for(tmp_path, RULES, resolver=resolver, network=network, limits=limits)
        attempt = await bench.send("https://example.com/")
        assert attempt.outcome == "failed"
        assert attempt.message == "no connection was made within 0.2 s"
