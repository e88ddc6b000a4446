"""A job's deliveries from outside: reading them, asking for one again, and making up for a job."""

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from activities.callbacks.models import CallbackAttempt
from workflows.asking import has_no_signals_left
from workflows.callbacks import Message, all_messages, delivery_prefix
from workflows.delivery import (
    CALLBACK_WORKFLOW,
    SIGNAL_REDELIVER,
    STATUS_KEY,
    DeliveryState,
    DeliveryStatus,
    attempts_of,
    delivery_options,
)
from workflows.listing import quoted
from workflows.messages import JobView
from workflows.names import WORKFLOW_TASK_QUEUE

# Each delivery that is asked for again makes one; the oldest are told no more.
_MOST_RUNS = 2000


class AskedTooOftenError(Exception):
    """Thousands have asked for a message while one attempt to send it lasted."""


@dataclass(frozen=True)
class Delivery:
    """A message, and how far its delivery is, with the attempts of all its runs.

    `state` is None where Temporal knows nothing of it: it is about to begin, or long over.
    """

    message: Message
    state: DeliveryState | None = None
    next_attempt_at: datetime | None = None
    attempts: tuple[CallbackAttempt, ...] = ()


class Deliveries:
    """Tells of the deliveries of jobs that were read, whether or not any worker is alive."""

    def __init__(self, client: Client, *, task_queue: str = WORKFLOW_TASK_QUEUE) -> None:
        self._client = client
        self._task_queue = task_queue

    async def of_job(self, view: JobView) -> list[Delivery]:
        """All deliveries of a job so far, in the order of what they tell of."""
        messages = all_messages(view)
        if not messages:
            return []
        runs: dict[str, list[WorkflowExecution]] = defaultdict(list)
        query = (
            f"WorkflowType = {quoted(CALLBACK_WORKFLOW)}"
            f" AND WorkflowId STARTS_WITH {quoted(delivery_prefix(view.id))}"
        )
        async for row in self._client.list_workflows(query, limit=_MOST_RUNS):
            runs[row.id].append(row)
        return [await _delivery(message, runs[message.workflow_id]) for message in messages]

    async def send_again(self, message: Message) -> None:
        """Send a message now, whether or not it was delivered, and however long ago.

        Raises `AskedTooOftenError`.
        """
        try:
            await self._start(
                message, WorkflowIDReusePolicy.ALLOW_DUPLICATE, start_signal=SIGNAL_REDELIVER
            )
        except RPCError as error:
            if has_no_signals_left(error):
                raise AskedTooOftenError from error
            raise

    async def make_up_for(self, view: JobView) -> None:
        """Start those deliveries of a job that its own run could not start: it was cut short."""
        for message in all_messages(view):
            with contextlib.suppress(WorkflowAlreadyStartedError):
                await self._start(message, WorkflowIDReusePolicy.REJECT_DUPLICATE)

    async def _start(
        self,
        message: Message,
        reuse: WorkflowIDReusePolicy,
        start_signal: str | None = None,
    ) -> None:
        policy = WorkflowIDConflictPolicy
        await self._client.start_workflow(
            CALLBACK_WORKFLOW,
            message,
            task_queue=self._task_queue,
            start_signal=start_signal,
            id_conflict_policy=policy.USE_EXISTING if start_signal else policy.FAIL,
            **delivery_options(message) | {"id_reuse_policy": reuse},
        )


async def _delivery(message: Message, runs: Sequence[WorkflowExecution]) -> Delivery:
    runs = sorted(runs, key=lambda run: run.start_time)
    if not runs:
        return Delivery(message)
    memos = [await run.memo() for run in runs]
    # A run that an operator has reset begins with the attempts of the one before: each counts once.
    attempts = {attempt.at: attempt for memo in memos for attempt in attempts_of(memo)}
    status = DeliveryStatus.model_validate(memos[-1].get(STATUS_KEY, {}))
    state = _state(status, runs[-1])
    return Delivery(
        message,
        state,
        status.next_attempt_at or _began_at(runs[-1]) if state == "PENDING" else None,
        tuple(attempts.values()),
    )


def _began_at(run: WorkflowExecution) -> datetime:
    return run.start_time.astimezone(UTC)


def _state(status: DeliveryStatus, run: WorkflowExecution) -> DeliveryState:
    """An operator can end a delivery, and then none of its code runs."""
    is_over = run.status is not WorkflowExecutionStatus.RUNNING
    return "STOPPED" if is_over and status.state == "PENDING" else status.state
