"""A workflow that schedules one activity, answers its claim, and does as it is told."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.models import ClaimInput, ClaimResult
    from activities.values import Model

REFUSED_DISPATCH = 13
ACTIVITY_ID = "attempt-1"


class ProbeInput(Model):
    """Which activity to schedule, where, with what."""

    activity: str
    task_queue: str
    argument: Any = None


@workflow.defn
class ProbeWorkflow:
    """Returns what its activity returns, or at once when it is told to close."""

    def __init__(self) -> None:
        self._wish = ""
        self._claims: list[int] = []

    @workflow.run
    async def run(self, input: ProbeInput) -> Any:
        """Follow one activity."""
        work = workflow.start_activity(
            input.activity,
            input.argument,
            task_queue=input.task_queue,
            activity_id=ACTIVITY_ID,
            start_to_close_timeout=timedelta(minutes=5),
            heartbeat_timeout=timedelta(seconds=4),
            retry_policy=RetryPolicy(maximum_attempts=1),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        while not work.done() and self._wish != "close":
            seen = self._wish
            if seen == "pause":
                work.cancel()
            await workflow.wait_condition(lambda: work.done() or self._wish != seen)  # noqa: B023
        return "closed" if self._wish == "close" else await work

    @workflow.signal
    def wish(self, name: str) -> None:
        """`pause` cancels the activity, `close` ends the run without waiting for it."""
        self._wish = name

    @workflow.update
    def claim(self, input: ClaimInput) -> ClaimResult:
        """Remember who claimed."""
        self._claims.append(input.dispatch)
        return ClaimResult(granted_at=workflow.now())

    @claim.validator
    def refuse(self, input: ClaimInput) -> None:
        """Refuse one dispatch."""
        if input.dispatch == REFUSED_DISPATCH:
            raise ApplicationError("another attempt has taken over")

    @workflow.query
    def claims(self) -> list[int]:
        """The dispatches that claimed."""
        return self._claims
