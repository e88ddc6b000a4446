"""How the fake work activity can behave once it has claimed its job."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.errors import ErrorKind
from activities.models import (
    AttemptHeartbeat,
    FailureReport,
    Phase,
    Progress,
    StopReason,
    WorkInput,
    WorkResult,
)
from activities.refs import ArtifactRef, CheckpointRef
from tests.fakes import Behaviour


def _worker() -> str:
    return activity.client().identity


def progress(step: int) -> Progress:
    """Progress after `step` of 30 steps."""
    now = datetime.now(UTC)
    return Progress(percent=97 * step // 30, step=step, total_steps=30, phase=Phase.STEP, at=now)


def checkpoint_of(input: WorkInput, step: int) -> CheckpointRef:
    """The checkpoint that the attempt stored after `step`."""
    return CheckpointRef(key=f"checkpoints/{input.job_id}/{input.dispatch}-{step}", step=step)


def artifact_of(input: WorkInput) -> ArtifactRef:
    """The image that the attempt stored."""
    sha256 = "0" * 64
    return ArtifactRef(
        key=f"jobs/{input.job_id}/{sha256}.png",
        sha256=sha256,
        media_type="image/png",
        byte_size=1,
        width=64,
        height=64,
    )


async def succeed(input: WorkInput) -> WorkResult:
    """Deliver the image at once."""
    return WorkResult(artifact=artifact_of(input), worker=_worker(), progress=progress(30))


def heartbeat(
    input: WorkInput, step: int, idle_seconds: float = 0, age_seconds: float = 0
) -> AttemptHeartbeat:
    """What the attempt tells after `step`, sent so long ago."""
    return AttemptHeartbeat(
        progress=progress(step),
        idle_seconds=idle_seconds,
        checkpoint=checkpoint_of(input, step),
        load=0.0,
        sent_at=datetime.now(UTC) - timedelta(seconds=age_seconds),
    )


async def work_until_stopped(input: WorkInput) -> WorkResult:
    """Do one step more than the checkpoint has, and say so, until an end is asked for."""
    step = (input.checkpoint.step if input.checkpoint else 0) + 1
    try:
        while True:
            activity.heartbeat(heartbeat(input, step))
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        details = activity.cancellation_details()
        assert details is not None
        if details.not_found:
            raise
        reason = StopReason.OPERATOR_PAUSE if details.paused else StopReason.PAUSE
        if details.worker_shutdown:
            reason = StopReason.WORKER_STOPPING
        return WorkResult(
            stopped=reason,
            checkpoint=checkpoint_of(input, step),
            progress=progress(step),
            worker=_worker(),
        )


def hang(idle_seconds: float) -> Behaviour:
    """Heartbeat, but do not move."""

    async def behave(input: WorkInput) -> WorkResult:
        while True:
            activity.heartbeat(heartbeat(input, 3, idle_seconds))
            await asyncio.sleep(0.05)

    return behave


async def fall_silent(input: WorkInput) -> WorkResult:
    """Heartbeat once, and never again, like a worker that was killed."""
    activity.heartbeat(heartbeat(input, 12))
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def fall_silent_in_an_outage(input: WorkInput) -> WorkResult:
    """Heartbeat as if the server had heard no later one for four seconds more than it has."""
    activity.heartbeat(heartbeat(input, 12, age_seconds=4))
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def stop_for_pause(input: WorkInput) -> WorkResult:
    """End at a checkpoint."""
    return WorkResult(
        stopped=StopReason.PAUSE,
        checkpoint=checkpoint_of(input, 5),
        progress=progress(5),
        worker=_worker(),
    )


def fail_with(kind: ErrorKind, message: str = "it broke", **report: object) -> Behaviour:
    """End as an attempt ends that failed."""

    async def behave(input: WorkInput) -> WorkResult:
        fields = {"kind": kind, "worker": _worker()} | report
        details = FailureReport.model_validate(fields)
        raise ApplicationError(message, details, type=kind, non_retryable=True)

    return behave


def one_after_another(behaviours: Sequence[Behaviour]) -> Behaviour:
    """Behave differently in each attempt; the last behaviour stays."""
    remaining = list(behaviours)

    async def behave(input: WorkInput) -> WorkResult:
        behaviour = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return await behaviour(input)

    return behave


def when(released: asyncio.Event, then: Behaviour = succeed) -> Behaviour:
    """Behave as told once released, whatever is asked meanwhile, unless the test is over."""

    async def behave(input: WorkInput) -> WorkResult:
        while not released.is_set():
            activity.heartbeat(heartbeat(input, 5))
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                if activity.is_worker_shutdown():
                    raise
        return await then(input)

    return behave
