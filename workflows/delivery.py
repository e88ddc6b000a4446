"""CallbackWorkflow: the delivery of one message, and what its memo tells of it."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from temporalio import workflow
from temporalio.common import Priority, RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.callbacks.activity import CallbackActivities
    from activities.callbacks.models import CallbackAttempt, SendCallbackInput
    from activities.errors import WorkError
    from activities.values import Model
    from workflows import options
    from workflows.callbacks import Message
    from workflows.signals import with_any_payload

CALLBACK_WORKFLOW = "CallbackWorkflow"
SIGNAL_REDELIVER = "redeliver"
CALLBACK_FAILED = "CALLBACK_FAILED"

# A row of visibility tells all of it.
MESSAGE_KEY = "message"
STATUS_KEY = "status"
_ATTEMPT_PREFIX = "attempt-"

_LONGEST_WAIT_SECONDS = options.LONGEST_CALLBACK_WAIT.total_seconds()

DeliveryState = Literal["PENDING", "DELIVERED", "FAILED", "STOPPED"]


class DeliveryStatus(Model):
    """How far a delivery is. STOPPED: the receiver wants nothing more, or there is none."""

    state: DeliveryState = "PENDING"
    next_attempt_at: datetime | None = None


@workflow.defn(name=CALLBACK_WORKFLOW)
class CallbackWorkflow:
    """One message, until its receiver has it, wants no more, or three days are over.

    The signal `redeliver` sends it at once, however often it was sent before, and begins the three
    days anew. A failed delivery closes the run as Failed, so that operators see it.
    """

    @workflow.init
    def __init__(self, input: Message) -> None:
        self._message = input
        self._attempts = 0
        self._is_asked_again = False

    @workflow.run
    async def run(self, input: Message) -> DeliveryStatus:
        """Deliver; returns how it ended, or fails with `CALLBACK_FAILED`."""
        failures = 0
        while True:
            # Whoever asked to send again is served by the attempt that follows.
            self._is_asked_again = False
            attempt = await self._send()
            failures += 1
            self._end_if_cancelled(attempt)
            if self._is_asked_again:
                self._note(attempt, DeliveryStatus(next_attempt_at=workflow.now()))
            elif wait := self._wait_after(attempt, failures):
                self._note(attempt, DeliveryStatus(next_attempt_at=workflow.now() + wait))
                if not await self._is_asked_within(wait):
                    continue
            else:
                return self._end(attempt)
            failures = 0
            self._begin_anew_if_long()

    async def _send(self) -> CallbackAttempt:
        message, began_at = self._message, workflow.now()
        self._attempts += 1
        try:
            return await workflow.execute_activity_method(
                CallbackActivities.send_callback,
                SendCallbackInput(
                    tenant=message.tenant,
                    message_id=message.id,
                    body=message.body,
                    url=message.url,
                ),
                start_to_close_timeout=options.CALLBACK_TIMEOUT,
                retry_policy=options.CALLBACK_RETRY,
                summary=f"attempt {self._attempts}",
            )
        # The worker died, or could not read who is to be told: an attempt as any other.
        except ActivityError as error:
            return CallbackAttempt(at=began_at, outcome="failed", message=_words_for(error))

    def _wait_after(self, attempt: CallbackAttempt, failures: int) -> timedelta | None:
        """How long until the next attempt; None if there is none."""
        if attempt.outcome != "failed" or failures > len(options.CALLBACK_INTERVALS):
            return None
        spread = workflow.random().uniform(1 - options.CALLBACK_JITTER, 1 + options.CALLBACK_JITTER)
        planned = options.CALLBACK_INTERVALS[failures - 1] * spread
        asked = timedelta(seconds=min(attempt.retry_after_seconds or 0.0, _LONGEST_WAIT_SECONDS))
        return max(planned, asked)

    async def _is_asked_within(self, wait: timedelta) -> bool:
        try:
            await workflow.wait_condition(
                lambda: self._is_asked_again, timeout=wait, timeout_summary="next attempt"
            )
        except TimeoutError:
            return False
        return True

    def _end_if_cancelled(self, attempt: CallbackAttempt) -> None:
        """`temporal workflow cancel` ends the attempt as if it had failed, and the delivery too."""
        if workflow.cancellation_reason() is not None and attempt.outcome == "failed":
            self._note(attempt, DeliveryStatus(state="STOPPED"))
            raise asyncio.CancelledError

    def _begin_anew_if_long(self) -> None:
        """Send again in another run, where this one has grown by being asked again and again."""
        is_long = workflow.info().is_continue_as_new_suggested()
        if is_long or self._attempts >= options.MAX_CALLBACK_ATTEMPTS:
            workflow.continue_as_new(self._message, memo=_first_memo(self._message))

    def _end(self, attempt: CallbackAttempt) -> DeliveryStatus:
        ends: Mapping[str, DeliveryState] = {"delivered": "DELIVERED", "gone": "STOPPED"}
        status = DeliveryStatus(state=ends.get(attempt.outcome, "FAILED"))
        self._note(attempt, status)
        if status.state == "FAILED":
            raise ApplicationError(attempt.message, type=CALLBACK_FAILED, non_retryable=True)
        return status

    def _note(self, attempt: CallbackAttempt, status: DeliveryStatus) -> None:
        key = f"{_ATTEMPT_PREFIX}{self._attempts:04}"
        workflow.upsert_memo({key: attempt, STATUS_KEY: status})

    @workflow.signal(name=SIGNAL_REDELIVER)
    @with_any_payload
    def redeliver(self, _: RawValue) -> None:
        """Wish that the message is sent now."""
        self._is_asked_again = True


def _words_for(error: ActivityError) -> str:
    """What is known of an attempt that told nothing itself."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == WorkError.__name__:
        return "nothing was sent: the settings of callbacks could not be read"
    return "the attempt ended unexpectedly; whether it arrived is not known"


def _first_memo(message: Message) -> dict[str, Any]:
    return {
        MESSAGE_KEY: message.model_copy(update={"body": ""}),
        STATUS_KEY: DeliveryStatus(),
    }


def delivery_options(message: Message) -> dict[str, Any]:
    """Keyword arguments that a client's `start_workflow` and a workflow's own have in common."""
    return {
        "id": message.workflow_id,
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "task_timeout": options.WORKFLOW_TASK_TIMEOUT,
        "memo": _first_memo(message),
        # Tenants take turns: one whose receivers are slow doesn't hold up the others.
        "priority": Priority(fairness_key=message.tenant),
        "static_summary": f"{message.type} · {message.id} · {message.receiver}",
    }


def attempts_of(memo: Mapping[str, Any]) -> list[CallbackAttempt]:
    """The attempts that a delivery's memo tells of, in order."""
    keys = sorted(key for key in memo if key.startswith(_ATTEMPT_PREFIX))
    return [CallbackAttempt.model_validate(memo[key]) for key in keys]
