"""Random lives: whatever happens to a job, in whatever order, its promises hold and it replays."""

import asyncio
import contextlib
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from activities.errors import ErrorKind
from activities.models import StopReason, WorkInput, WorkResult
from tests.fakes import Behaviour
from tests.workflows.behaviours import (
    checkpoint_of,
    fail_with,
    one_after_another,
    progress,
    succeed,
    work_until_stopped,
)
from tests.workflows.stage import JobHandle, Stage, until
from workflows.messages import JobView
from workflows.state_machine import TRANSITIONS, JobState

SIGNALS = ("cancel", "pause", "resume", "pasue")
AMENDMENTS = {
    "urgent": {"priority": 8},
    "not urgent": {"priority": 2},
    "longer": {"timeout_seconds": 86_400},
    "shorter and urgent": {"timeout_seconds": 600, "priority": 8},
}
RETRIED = tuple(kind for kind in ErrorKind if not kind.is_permanent and kind.name != "TIMEOUT")


async def hand_back(input: WorkInput) -> WorkResult:
    """A worker that stops at once, one step further."""
    step = (input.checkpoint.step if input.checkpoint else 0) + 1
    return WorkResult(
        stopped=StopReason.WORKER_STOPPING,
        checkpoint=checkpoint_of(input, step),
        progress=progress(step),
        worker="stopping",
    )


async def deliver_anyway(input: WorkInput) -> WorkResult:
    """Deliver, even when asked to stop."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0.05)
    return await succeed(input)


attempts = st.lists(
    st.one_of(
        st.sampled_from([succeed, work_until_stopped, hand_back, deliver_anyway]),
        st.sampled_from([*RETRIED, ErrorKind.CONTENT_REJECTED]).map(fail_with),
    ),
    min_size=1,
    max_size=6,
)
# A pause of none lets a signal and a result meet in one workflow task.
wishes = st.lists(
    st.tuples(
        st.sampled_from([*SIGNALS, *AMENDMENTS, "native cancel"]),
        st.sampled_from([0.0, 0.0, 0.03, 0.1]),
    ),
    max_size=6,
)


@given(behaviours=attempts, asked=wishes)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_whatever_happens_to_a_job_its_promises_hold_and_its_history_replays(
    skipping: WorkflowEnvironment, behaviours: list[Behaviour], asked: list[tuple[str, float]]
) -> None:
    stage = Stage(skipping.client)
    work = stage.work(one_after_another([*behaviours, succeed]))
    async with stage.deciding(), stage.working(work):
        handle = await stage.start(max_attempts=4)
        for wish, pause in asked:
            await ask(handle, wish)
            await asyncio.sleep(pause)
        view = await end(stage, handle)
    check(view, asked)
    # Looks at the history too: it must replay, and no workflow task may have failed.
    await stage.close()


async def ask(handle: JobHandle, wish: str) -> None:
    """Wish something of a job that may be over."""
    with contextlib.suppress(RPCError):
        if wish == "native cancel":
            await handle.cancel()
        elif wish in AMENDMENTS:
            await handle.signal("amend", AMENDMENTS[wish])
        else:
            await handle.signal(wish)


async def end(stage: Stage, handle: JobHandle) -> JobView:
    """Bring the job to its end: a paused one, and one that works until it is stopped, need help."""

    async def is_over() -> bool:
        view = await stage.view(handle)
        if view.state is JobState.PAUSED:
            await ask(handle, "resume")
        elif view.state is JobState.PROCESSING:
            await ask(handle, "pause")
        return view.state.is_terminal

    await until(is_over)
    return await stage.view(handle)


def check(view: JobView, asked: list[tuple[str, float]]) -> None:
    """What holds of every job."""
    state, at = JobState.PENDING, view.created_at
    for number, transition in enumerate(view.transitions, 1):
        assert transition.sequence == number
        assert transition.from_state is state
        assert transition.to_state is TRANSITIONS[state, transition.event]
        assert transition.at >= at
        assert transition.source
        assert transition.message
        state, at = transition.to_state, transition.at
    assert view.state is state
    assert view.state.is_terminal
    assert (view.status.result is not None) == (view.state is JobState.SUCCESS)
    has_failed = view.state in (JobState.FAILED, JobState.TIMEOUT_CANCELLED)
    assert (view.status.error is not None) == has_failed
    assert view.status.pending_request is None
    assert view.status.attempt <= 4
    priorities = [a.priority for a in view.status.amendments if a.priority is not None]
    assert view.priority == [5, *priorities][-1]
    assert all(a != b for a, b in pairwise([5, *priorities]))
    if view.state is JobState.CANCELLED:
        assert {"cancel", "native cancel"} & {wish for wish, _ in asked}
