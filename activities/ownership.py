"""Whether an attempt owns its job: asked before the engine is touched, and before a write."""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from temporalio import activity
from temporalio.client import (
    AsyncActivityCancelledError,
    Client,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.models import AttemptHeartbeat, ClaimInput, ClaimResult


class JobLostError(Exception):
    """The job belongs to somebody else now, or is over: whatever this attempt made is void."""


@dataclass(frozen=True)
class Grant:
    """A claim that was granted at `at` by Temporal's clock, between two moments of this process.

    `asked` and `answered` are of the monotonic clock, which nobody can set. `at` is None where a
    workflow of an older build has answered.
    """

    at: datetime | None
    asked: float
    answered: float

    @classmethod
    def of(cls, at: datetime | None, asked: float, begun: float, started_at: datetime) -> "Grant":
        """A claim that was answered just now, of an attempt that began to ask at `begun`.

        What was granted may be an earlier ask, whose answer got lost: then it was no later than so
        long after the attempt was started, by the same clock.
        """
        if at is not None:
            granted = begun + (at - started_at).total_seconds()
            # Not before the first ask, where Temporal's clock was set back meanwhile.
            asked = min(asked, max(begun, granted))
        return cls(at, asked, time.monotonic())

    def latest(self) -> datetime | None:
        """Temporal's time now, or somewhat later."""
        return self._after(self.asked)

    def earliest(self) -> datetime:
        """Temporal's time now, or somewhat earlier; this machine's where the claim told none."""
        return self._after(self.answered) or datetime.now(UTC)

    def _after(self, moment: float) -> datetime | None:
        passed = timedelta(seconds=time.monotonic() - moment)
        return self.at + passed if self.at else None


class Ownership(Protocol):
    """The attempt's right to work on its job."""

    async def claim(self, dispatch: int) -> Grant:
        """Become the job's owner, or raise `JobLostError`. May be asked again after a failure."""
        ...

    async def confirm(self, heartbeat: AttemptHeartbeat) -> None:
        """Raise `JobLostError` unless the server still counts this attempt as the job's."""


class TemporalOwnership:
    """Asks the workflow, by the update `claim`, and the server, by a synchronous heartbeat."""

    def __init__(self, client: Client, claim_update: str = "claim") -> None:
        self._client = client
        self._claim_update = claim_update

    async def claim(self, dispatch: int) -> Grant:
        """Waits as long as no workflow worker answers; the attempt's heartbeats go on meanwhile."""
        claim = ClaimInput(dispatch=dispatch, worker=self._client.identity)
        begun = time.monotonic()
        while (grant := await self._try_claim(claim, begun)) is None:
            activity.logger.warning("no workflow worker has answered the claim; asking again")
            await asyncio.sleep(_CLAIM_PAUSE_SECONDS)
        return grant

    async def _try_claim(self, claim: ClaimInput, begun: float) -> Grant | None:
        info, asked = activity.info(), time.monotonic()
        handle = self._client.get_workflow_handle(
            info.workflow_id or "", run_id=info.workflow_run_id
        )
        try:
            # The id makes it one claim, however often it is asked.
            answer: object = await handle.execute_update(
                self._claim_update, claim, id=f"{self._claim_update}-{claim.dispatch}"
            )
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            # The SDK's word for two things: nobody answered, and this attempt was cancelled.
            if isinstance(error.__cause__, asyncio.CancelledError):
                raise error.__cause__ from None
            return None
        except WorkflowUpdateFailedError as error:
            raise JobLostError(str(error.cause)) from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise JobLostError("the job is over") from error
            if error.status not in _PASSING:
                raise
            return None
        granted_at = ClaimResult.model_validate(answer).granted_at if answer else None
        return Grant.of(granted_at, asked, begun, info.started_time)

    async def confirm(self, heartbeat: AttemptHeartbeat) -> None:
        """Takes about 2 ms. A job that was only asked to stop is still owned."""
        handle = self._client.get_async_activity_handle(task_token=activity.info().task_token)
        try:
            await handle.heartbeat(heartbeat)
        except AsyncActivityCancelledError:
            return
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise JobLostError("the job was given to another attempt, or is over") from error
            if error.status not in _PASSING:
                raise
            # Out of reach: the heartbeat timeout decides, and the keys are this dispatch's own.


_CLAIM_PAUSE_SECONDS = 0.5
_PASSING = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.ABORTED,
        # What the SDK makes of a connection that broke during the call.
        RPCStatusCode.UNKNOWN,
        RPCStatusCode.INTERNAL,
    }
)
