"""What tests of callbacks share: a bench that makes attempts as a worker would."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import httpcore
from temporalio.testing import ActivityEnvironment

from activities.artifacts import LocalArtifactStore
from activities.callbacks.activity import CallbackActivities
from activities.callbacks.addresses import Address
from activities.callbacks.book import CallbackBook
from activities.callbacks.models import CallbackAttempt, SendCallbackInput
from activities.callbacks.resolving import Resolver
from activities.callbacks.rules import CallbackRules
from activities.callbacks.sending import CallbackSender, SendLimits
from tests.activities.receivers import Receiver

BODY = '{"type": "job.finished", "text": "Grüße"}'
PUBLIC = "93.184.216.34"
USUAL_LIMITS = SendLimits()


class FakeResolver:
    """Answers as it is told, in turn, the last answer again and again."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    async def resolve(self, name: str) -> Sequence[Address]:
        """See `Resolver.resolve`."""
        self.asked.append(name)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [ip_address(text) for text in answer]


class FakeNetwork(httpcore.AsyncNetworkBackend):
    """A network where every address leads to one receiver, whatever it is."""

    def __init__(self, receiver: Receiver) -> None:
        self.asked: list[tuple[str, int]] = []
        self._receiver = receiver
        self._real = httpcore.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, *_: object) -> httpcore.AsyncNetworkStream:
        """See `AsyncNetworkBackend.connect_tcp`."""
        self.asked.append((host, port))
        return await self._real.connect_tcp("127.0.0.1", self._receiver.port)


@dataclass
class Bench:
    """Makes attempts as a worker with these rules would."""

    root: Path
    rules: CallbackRules
    sender: CallbackSender

    @property
    def book(self) -> CallbackBook:
        """Of a process that has just started."""
        return CallbackBook(LocalArtifactStore(self.root / "artifacts"))

    async def send(self, url: str | None, message_id: str = "msg_1") -> CallbackAttempt:
        """One attempt for the tenant `anne`."""
        activities = CallbackActivities(self.rules, self.book, self.sender)
        message = SendCallbackInput(tenant="anne", message_id=message_id, body=BODY, url=url)
        return await ActivityEnvironment().run(activities.send_callback, message)


def bench_for(
    root: Path,
    rules: CallbackRules,
    *,
    resolver: Resolver | None = None,
    network: httpcore.AsyncNetworkBackend | None = None,
    limits: SendLimits = USUAL_LIMITS,
) -> Bench:
    """A bench whose network is the real one unless another is given."""
    sender = CallbackSender(rules, resolver=resolver, network=network, limits=limits)
    return Bench(root, rules, sender)
