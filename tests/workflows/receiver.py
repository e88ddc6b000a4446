"""A receiver of callbacks for workflow tests: it answers as it is told, and keeps what it got."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from temporalio import activity

from activities.callbacks.models import CallbackAttempt, CallbackOutcome, SendCallbackInput


def answer(
    outcome: CallbackOutcome, status_code: int | None = None, retry_after: float | None = None
) -> CallbackAttempt:
    """How an attempt goes."""
    return CallbackAttempt(
        at=datetime.now(UTC),
        outcome=outcome,
        status_code=status_code,
        message="" if outcome == "delivered" else "as the test wants it",
        retry_after_seconds=retry_after,
    )


DELIVERED = answer("delivered", 204)
FAILED = answer("failed", 503)
GONE = answer("gone", 410)


class Gate:
    """Lets nobody through until it is open."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()


class FakeReceiver:
    """Stands in for CallbackActivities: answers in turn, and then with the last answer for ever."""

    def __init__(
        self, answers: Iterable[CallbackAttempt] = (DELIVERED,), gate: Gate | None = None
    ) -> None:
        self.got: list[SendCallbackInput] = []
        self.gate = gate or Gate()
        if gate is None:
            self.gate.open.set()
        self._answers = list(answers)

    @activity.defn
    async def send_callback(self, input: SendCallbackInput) -> CallbackAttempt:
        """The activity, by its real name."""
        self.got.append(input)
        self.gate.entered.set()
        await self.gate.open.wait()
        given = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return given.model_copy(update={"at": datetime.now(UTC)})
