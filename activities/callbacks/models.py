"""What crosses the border: a message for an application, and how one attempt to send it went."""

from typing import Literal

from pydantic import Field

from activities.values import Model, UtcTime

CallbackOutcome = Literal["delivered", "failed", "gone"]
# What a receiver is told of: final states, or every transition.
CallbackEvents = Literal["final", "all"]

MAX_URL_LENGTH = 2000


class SendCallbackInput(Model):
    """A message and its receiver: an address, or the tenant's endpoint where `url` is None.

    `message_id` is the same at every attempt, and `body`, which is JSON, too: by both a receiver
    knows what it had before.
    """

    tenant: str
    message_id: str
    body: str
    url: str | None = None


class CallbackAttempt(Model):
    """One attempt. `gone`: the receiver wants nothing more, or there is none any more.

    `status_code` is None where no answer came; `message` tells the rest in words for the tenant.
    """

    at: UtcTime
    outcome: CallbackOutcome
    status_code: int | None = None
    message: str = Field(default="", max_length=500)
    duration_seconds: float = Field(default=0.0, ge=0)
    retry_after_seconds: float | None = Field(default=None, ge=0)
