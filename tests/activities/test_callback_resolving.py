"""Names: how often they are looked up, for how long, and what their addresses decide."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address

import pytest

from activities.callbacks.checking import SubmitCheck
from activities.callbacks.errors import CallbackRefusedError
from activities.callbacks.resolving import RememberingResolver, SystemResolver
from activities.callbacks.rules import CallbackRules
from tests.activities.callback_bench import PUBLIC, FakeResolver
from tests.processes import until

RULES = CallbackRules()


class NameServer:
    """Stands in for the system: answers for the names it knows, as soon as it is let go."""

    def __init__(self, **known: Sequence[str] | Exception) -> None:
        self.asked: list[str] = []
        self.go = threading.Event()
        self.go.set()
        self._known = known

    def __call__(self, name: str) -> Sequence[str]:
        """Blocks."""
        self.asked.append(name)
        self.go.wait()
        answer = self._known.get(name.partition(".")[0], [PUBLIC])
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def hung() -> AsyncIterator[NameServer]:
    """A name server that doesn't answer before the test is over."""
    server = NameServer()
    server.go.clear()
    yield server
    server.go.set()


async def test_real_system_resolves_an_address_to_itself_and_no_name_that_can_not_be() -> None:
    resolver = SystemResolver(10)
    assert list(await resolver.resolve("127.0.0.1")) == [ip_address("127.0.0.1")]
    assert list(await resolver.resolve(f"{'a' * 64}.com")) == []


async def test_all_addresses_come_in_order_and_each_once() -> None:
    server = NameServer(a=["1.1.1.1", "2606:4700::1", "1.1.1.1", "fe80::1%2"])
    expected = [ip_address(text) for text in ("1.1.1.1", "2606:4700::1", "fe80::1%2")]
    assert list(await SystemResolver(10, server).resolve("a.com")) == expected


@pytest.mark.parametrize(
    "answer",
    [
        socket.gaierror(socket.EAI_NONAME, "x"),
        socket.gaierror(socket.EAI_AGAIN, "x"),
        OSError("x"),
        UnicodeError("x"),
        [],
        [PUBLIC, "no address"],
    ],
)
async def test_name_that_can_not_be_resolved_has_no_addresses(
    answer: Sequence[str] | Exception,
) -> None:
    assert list(await SystemResolver(10, NameServer(a=answer)).resolve("a.com")) == []


async def test_many_who_ask_at_once_make_one_lookup(hung: NameServer) -> None:
    resolver = SystemResolver(60, hung)
    asking = [asyncio.create_task(resolver.resolve("a.com")) for _ in range(500)]
    await until(lambda: bool(hung.asked))
    hung.go.set()
    answers = await asyncio.gather(*asking)
    assert {tuple(map(str, answer)) for answer in answers} == {(PUBLIC,)}
    assert hung.asked == ["a.com"]


async def test_one_who_gives_up_takes_the_answer_from_nobody(hung: NameServer) -> None:
    resolver = SystemResolver(60, hung)
    first, second = [asyncio.create_task(resolver.resolve("a.com")) for _ in range(2)]
    await until(lambda: bool(hung.asked))
    first.cancel()
    hung.go.set()
    assert [str(address) for address in await second] == [PUBLIC]
    assert first.cancelled() or first.cancelling()


async def test_lookup_that_hangs_is_given_up_and_takes_one_thread_however_often_it_is_asked(
    hung: NameServer,
) -> None:
    resolver = SystemResolver(0.05, hung)
    for _ in range(5):
        assert list(await resolver.resolve("a.com")) == []
        await until(lambda: bool(hung.asked))
    assert hung.asked == ["a.com"]
    hung.go.set()
    patient = SystemResolver(60, hung)
    assert [str(address) for address in await patient.resolve("a.com")] == [PUBLIC]


async def test_name_is_asked_for_again_once_its_lookup_has_ended(hung: NameServer) -> None:
    resolver = SystemResolver(0.05, hung)
    assert list(await resolver.resolve("a.com")) == []
    await until(lambda: bool(hung.asked))
    hung.go.set()
    async with asyncio.timeout(60):
        while not await resolver.resolve("a.com"):
            await asyncio.sleep(0.01)
    assert len(hung.asked) >= 2


async def test_lookups_that_hang_are_bounded_for_a_domain_and_hold_up_no_other(
    hung: NameServer,
) -> None:
    resolver = SystemResolver(0.2, hung)
    answers = await asyncio.gather(*(resolver.resolve(f"n{n}.hung.com") for n in range(50)))
    assert not any(answers)
    await until(lambda: len(hung.asked) == 8)
    # One whose threads all hang, and one that is asked for the first time.
    assert list(await resolver.resolve("other.hung.com")) == []
    assert list(await resolver.resolve("a.com")) == []
    await until(lambda: "a.com" in hung.asked)
    assert hung.asked[8:] == ["a.com"]


async def test_domain_that_hangs_holds_up_no_other_below_the_same_registry(
    hung: NameServer,
) -> None:
    resolver = SystemResolver(0.2, hung)
    await asyncio.gather(*(resolver.resolve(f"n{n}.hung.co.uk") for n in range(50)))
    assert len(hung.asked) == 8
    await resolver.resolve("shop.co.uk")
    assert hung.asked[8:] == ["shop.co.uk"]


async def test_lookups_that_hang_are_bounded_over_all_domains(hung: NameServer) -> None:
    resolver = SystemResolver(0.5, hung)
    await asyncio.gather(*(resolver.resolve(f"n{n}.com") for n in range(150)))
    assert 1 <= len(hung.asked) <= 100


async def test_domain_is_served_again_once_its_lookups_have_ended(hung: NameServer) -> None:
    resolver = SystemResolver(0.05, hung)
    await asyncio.gather(*(resolver.resolve(f"n{n}.hung.com") for n in range(20)))
    hung.go.set()
    async with asyncio.timeout(60):
        while not await resolver.resolve("z.hung.com"):
            await asyncio.sleep(0.01)


async def test_answer_is_remembered_for_some_seconds_also_that_there_is_none() -> None:
    now = [0.0]
    known = FakeResolver([], [PUBLIC])
    resolver = RememberingResolver(known, seconds=10, clock=lambda: now[0])
    for now[0] in (0.0, 9.9):
        assert list(await resolver.resolve("a.com")) == []
    for now[0] in (10.0, 19.9):
        assert [str(address) for address in await resolver.resolve("a.com")] == [PUBLIC]
    assert known.asked == ["a.com"] * 2


async def test_memory_of_names_is_bounded() -> None:
    known = FakeResolver([PUBLIC])
    resolver = RememberingResolver(known)
    for name in ("first.com", *(f"n{n}.com" for n in range(1000)), "n999.com", "first.com"):
        await resolver.resolve(name)
    assert known.asked.count("first.com") == 2
    assert known.asked.count("n999.com") == 1


async def test_submits_of_one_host_make_one_lookup_at_once_or_in_turn() -> None:
    server = NameServer()
    check = SubmitCheck(RULES, SystemResolver(60, server))
    urls = [f"https://example.com/{n}" for n in range(500)]
    await asyncio.gather(*(check.check_at_submit(url) for url in urls))
    for url in urls:
        assert (await check.check_at_submit(url)).host.text == "example.com"
    assert server.asked == ["example.com"]


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["fe80::1%2"],
        [PUBLIC, "127.0.0.1"],
        ["2606:4700::1", PUBLIC, "100.64.0.1"],
    ],
)
async def test_name_that_resolves_to_a_forbidden_address_is_refused_at_submit(
    addresses: list[str],
) -> None:
    check = SubmitCheck(RULES, FakeResolver(addresses))
    with pytest.raises(CallbackRefusedError) as refusal:
        await check.check_at_submit("https://example.com/")
    assert not any(address in str(refusal.value) for address in addresses)


@pytest.mark.parametrize("addresses", [[], [PUBLIC], [PUBLIC, "2606:4700::1"]])
async def test_name_that_is_public_or_unknown_now_is_accepted_at_submit(
    addresses: list[str],
) -> None:
    check = SubmitCheck(RULES, FakeResolver(addresses))
    url = await check.check_at_submit("https://example.com/x")
    assert (url.host.text, url.target) == ("example.com", "/x")


async def test_address_and_refused_text_are_not_looked_up() -> None:
    resolver = FakeResolver([PUBLIC])
    check = SubmitCheck(RULES, resolver)
    await check.check_at_submit(f"https://{PUBLIC}/")
    for text in ("https://localhost/", "https://127.0.0.1/", "https://example.com:22/"):
        with pytest.raises(CallbackRefusedError):
            await check.check_at_submit(text)
    assert resolver.asked == []


async def test_private_host_may_resolve_to_anything() -> None:
    rules = CallbackRules.parse(private_hosts="receiver:9000")
    check = SubmitCheck(rules, FakeResolver(["10.0.0.1", "::1"]))
    assert (await check.check_at_submit("http://receiver:9000/")).port == 9000
    with pytest.raises(CallbackRefusedError):
        await check.check_at_submit("http://receiver/")
