"""One attempt of generate_image: what it claims, tells, stores and returns."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.artifacts import put_checkpoint
from activities.attempt import OWNERSHIP_LASTS
from activities.engines.base import CheckpointTaken, ImageDone, PhaseBegun, StartedOver, StepDone
from activities.errors import ErrorKind, InvalidParametersError, WorkError
from activities.imaging.stills import pixels_of
from activities.models import CLAIM_REFUSED, Phase, StopReason
from activities.refs import CheckpointRef
from tests.activities.attempt_bench import (
    IMAGE,
    STEPS,
    Bench,
    LoadingEngine,
    PendingOwnership,
    RaisingEngine,
    gated,
    held,
)
from tests.fakes import FakeEngine
from tests.processes import until

LOST = ActivityCancellationDetails(not_found=True)
PAUSE = ActivityCancellationDetails(cancel_requested=True)
OPERATOR_PAUSE = ActivityCancellationDetails(paused=True)
GRACE_IS_OVER = ActivityCancellationDetails(worker_shutdown=True)

MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[MakeBench]:
    """Makes benches; no temporary file is left of any."""
    benches: list[Bench] = []

    def make(engine: FakeEngine, **fields: Any) -> Bench:
        benches.append(Bench(tmp_path, engine, **fields))
        return benches[-1]

    yield make
    for made in benches:
        assert made.leftovers == []
        made.scratch.close()


async def test_a_job_ends_with_its_image_in_the_store(bench: MakeBench) -> None:
    made = bench(FakeEngine([*STEPS, PhaseBegun(Phase.DECODE), IMAGE]))
    result = await made.start()
    assert result.artifact is not None
    stored = (made.root / "artifacts" / result.artifact.key).read_bytes()
    sha256 = hashlib.sha256(stored).hexdigest()
    assert result.artifact.sha256 == sha256
    assert pixels_of(stored).tolist() == pixels_of(IMAGE.data).tolist()
    assert (result.artifact.media_type, result.artifact.byte_size) == ("image/png", len(stored))
    assert (result.artifact.width, result.artifact.height) == (64, 64)
    assert made.stored == [f"jobs/7/{sha256}.png"] == [result.artifact.key]
    assert (result.worker, result.stopped, result.checkpoint, result.note) == ("me", None, None, "")
    assert result.progress is not None
    assert (result.progress.percent, result.progress.step) == (99, 4)
    assert made.ownership.claims[0].dispatch == 3


async def test_a_refused_claim_never_opens_the_engine(bench: MakeBench) -> None:
    made = bench(FakeEngine([IMAGE]))
    made.ownership.is_lost = True
    with pytest.raises(ApplicationError, match="the job is over") as refusal:
        await made.start()
    assert (refusal.value.type, refusal.value.non_retryable) == (CLAIM_REFUSED, True)
    assert made.engine.checkpoints == []


@pytest.mark.parametrize(
    ("details", "reason"),
    [(PAUSE, StopReason.PAUSE), (OPERATOR_PAUSE, StopReason.OPERATOR_PAUSE)],
)
async def test_a_pause_ends_at_a_checkpoint(
    bench: MakeBench, details: ActivityCancellationDetails, reason: StopReason
) -> None:
    made = bench(held(STEPS[0], CheckpointTaken(b"state", 1)))
    attempt = made.start()
    await until(lambda: made.stored == ["checkpoints/7/3-1"])
    made.environment.cancel(details)
    result = await attempt
    assert result.stopped is reason
    assert result.checkpoint == CheckpointRef(key="checkpoints/7/3-1", step=1)
    assert result.artifact is None
    assert made.engine.run.stop_requests == [True]


async def test_an_image_that_comes_after_the_pause_was_asked_for_wins(bench: MakeBench) -> None:
    hold = asyncio.Event()
    made = bench(gated(hold, STEPS[0], IMAGE))
    attempt = made.start()
    await until(lambda: bool(made.engine.checkpoints))
    made.environment.cancel(PAUSE)
    await until(lambda: bool(made.engine.run.stop_requests))
    hold.set()
    result = await attempt
    assert result.artifact is not None
    assert result.stopped is None


async def test_a_stopping_worker_hands_its_job_back(bench: MakeBench) -> None:
    made = bench(held(STEPS[0], CheckpointTaken(b"state", 1)))
    attempt = made.start()
    await until(lambda: bool(made.stored))
    made.environment.worker_shutdown()
    result = await attempt
    assert (result.stopped, result.worker) == (StopReason.WORKER_STOPPING, "me")
    assert result.checkpoint is not None
    assert made.work.last_served == [made.environment.info.workflow_id]


async def test_a_job_that_is_lost_is_stopped_without_a_checkpoint(bench: MakeBench) -> None:
    made = bench(held(STEPS[0]))
    attempt = made.start()
    await until(lambda: bool(made.heartbeats))
    made.environment.cancel(LOST)
    with pytest.raises(ApplicationError) as caught:
        await attempt
    # Nobody hears it: the server refuses whatever this attempt still says. The log stays quiet.
    assert caught.value.type == CLAIM_REFUSED
    assert caught.value.category is ApplicationErrorCategory.BENIGN
    assert made.engine.run.stop_requests == [False]
    assert made.stored == []


async def test_a_claim_that_nobody_answers_is_given_up_with_the_job(bench: MakeBench) -> None:
    made = bench(FakeEngine([IMAGE]), ownership=PendingOwnership())
    attempt = made.start()
    await until(lambda: bool(made.heartbeats))
    made.environment.cancel(LOST)
    with pytest.raises(ApplicationError) as caught:
        await attempt
    # Nobody hears it: the server refuses whatever this attempt still says. The log stays quiet.
    assert caught.value.type == CLAIM_REFUSED
    assert caught.value.category is ApplicationErrorCategory.BENIGN
    assert made.engine.checkpoints == []


@pytest.mark.parametrize("is_claimed", [False, True])
async def test_a_stop_before_the_engine_has_begun_waits_for_nothing(
    bench: MakeBench, is_claimed: bool
) -> None:
    ownership = {} if is_claimed else {"ownership": PendingOwnership()}
    made = bench(LoadingEngine([]), **ownership)
    attempt = made.start()
    await until(lambda: bool(made.engine.checkpoints) or not is_claimed)
    made.environment.worker_shutdown()
    async with asyncio.timeout(2):
        assert (await attempt).stopped is StopReason.WORKER_STOPPING


async def test_a_store_that_hangs_does_not_hold_a_worker_whose_grace_is_over(
    bench: MakeBench,
) -> None:
    made = bench(FakeEngine([*STEPS, IMAGE]), put="hangs", store_seconds=3600)
    attempt = made.start()
    await until(lambda: any(beat.progress.phase is Phase.STORE for beat in made.heartbeats))
    made.environment.worker_shutdown()
    made.environment.cancel(GRACE_IS_OVER)
    async with asyncio.timeout(2):
        assert (await attempt).stopped is StopReason.WORKER_STOPPING


async def test_heartbeats_tell_progress_that_never_falls_and_never_is_100(
    bench: MakeBench,
) -> None:
    gate = asyncio.Event()
    events = [
        *STEPS[:2],
        CheckpointTaken(b"state", 2),
        StartedOver("why not"),
        *STEPS[:3],
        PhaseBegun(Phase.DECODE),
        *STEPS[3:],
        StepDone(9, 4),
        StepDone(-1, 0),
        IMAGE,
    ]
    made = bench(gated(gate, *events))
    attempt = made.start()
    while not attempt.done():
        count = len(made.heartbeats)
        gate.set()
        gate.clear()
        await until(lambda: attempt.done() or len(made.heartbeats) > count)  # noqa: B023
    percents = [beat.progress.percent for beat in made.heartbeats]
    assert all(less <= more for less, more in pairwise(percents))
    assert max(percents) < 100
    assert all(beat.idle_seconds >= 0 and beat.load >= 0 for beat in made.heartbeats)
    assert CheckpointRef(key="checkpoints/7/3-2", step=2) in [b.checkpoint for b in made.heartbeats]


async def test_a_refusing_engine_fails_the_attempt_with_its_kind(bench: MakeBench) -> None:
    error = WorkError(ErrorKind.RATE_LIMITED, "too many requests", retry_after_seconds=9)
    made = bench(RaisingEngine(error))
    report = await made.fails()
    assert made.message == "too many requests"
    assert (report.kind, report.worker) == (ErrorKind.RATE_LIMITED, "me")
    assert report.retry_after_seconds == 9
    assert report.progress is not None
    assert report.progress.phase is Phase.LOAD


async def test_parameters_that_cannot_work_are_told_as_such(bench: MakeBench) -> None:
    made = bench(RaisingEngine(InvalidParametersError("no such model")))
    assert (await made.fails()).kind is ErrorKind.INVALID_PARAMETERS


async def test_an_unexpected_error_leaks_neither_its_text_nor_a_path(bench: MakeBench) -> None:
    made = bench(RaisingEngine(OSError(2, "secret", "/srv/secret")))
    report = await made.fails()
    assert report.kind is ErrorKind.INTERNAL
    assert made.message == "unexpected FileNotFoundError"


async def test_a_failure_carries_the_last_checkpoint_and_progress(bench: MakeBench) -> None:
    made = bench(FakeEngine([*STEPS[:3], CheckpointTaken(b"state", 3)]))
    report = await made.fails()
    assert made.message == "the engine ended without an image"
    assert report.kind is ErrorKind.ENGINE_CRASHED
    assert report.checkpoint == CheckpointRef(key="checkpoints/7/3-3", step=3)
    assert report.progress is not None
    assert report.progress.step == 3


@pytest.mark.parametrize("last", [IMAGE, CheckpointTaken(b"state", 1)])
async def test_nothing_is_written_once_the_job_is_lost(
    bench: MakeBench, last: ImageDone | CheckpointTaken
) -> None:
    gate = asyncio.Event()
    made = bench(gated(gate, STEPS[0], last))
    attempt = made.start()
    await until(lambda: bool(made.engine.checkpoints))
    made.ownership.is_lost = True
    lost_at = time.monotonic()
    # Until then the claim itself proves that nobody else can have begun.
    await until(lambda: time.monotonic() - lost_at > OWNERSHIP_LASTS.total_seconds())
    gate.set()
    with pytest.raises(ApplicationError, match="given to another") as refusal:
        await attempt
    assert refusal.value.type == CLAIM_REFUSED
    assert made.stored == []


async def test_the_engine_goes_on_from_the_stored_checkpoint(bench: MakeBench) -> None:
    made = bench(FakeEngine([STEPS[3], IMAGE]))
    ref = await put_checkpoint(made.store, "7", 2, 3, b"state")
    result = await made.start(ref)
    assert made.engine.checkpoints == [b"state"]
    assert result.note == ""


async def test_a_lost_checkpoint_starts_over_and_says_so(bench: MakeBench) -> None:
    made = bench(FakeEngine([*STEPS, IMAGE]))
    result = await made.start(CheckpointRef(key="checkpoints/7/2-3", step=3))
    assert made.engine.checkpoints == [None]
    assert result.note == "started over: the checkpoint was lost"


async def test_an_engine_that_cannot_use_the_checkpoint_says_why(bench: MakeBench) -> None:
    made = bench(FakeEngine([StartedOver("another version"), *STEPS, IMAGE]))
    ref = await put_checkpoint(made.store, "7", 2, 3, b"state")
    result = await made.start(ref)
    assert result.note == "started over: another version"


@pytest.mark.parametrize(
    ("output", "reason"),
    [(b"<html>", "not PNG, JPEG or WebP"), (IMAGE.data[:-20], "damaged"), (b"", "not PNG")],
)
async def test_output_that_is_no_image_is_never_stored(
    bench: MakeBench, output: bytes, reason: str
) -> None:
    made = bench(FakeEngine([*STEPS, ImageDone(output, "image/png")]))
    assert (await made.fails()).kind is ErrorKind.ENGINE_CRASHED
    assert made.message.startswith(f"the engine's output is not an image: {reason}")
    assert made.stored == []


@pytest.mark.parametrize("call", ["put", "get"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("hangs", "the artifact store did not answer for 0.2 s"),
        ("fails", "the artifact store is full"),
    ],
)
async def test_a_store_that_hangs_or_fails_is_told_as_storage(
    bench: MakeBench, call: str, fault: str, message: str
) -> None:
    made = bench(FakeEngine([*STEPS, IMAGE]), **{call: fault})
    report = await made.fails(CheckpointRef(key="checkpoints/7/2-1", step=1))
    assert (report.kind, made.message) == (ErrorKind.STORAGE, message)
