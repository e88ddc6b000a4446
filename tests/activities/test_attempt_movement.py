"""What an attempt tells of its movement: a step or a phase beyond those it began with."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from activities.engines.base import EngineEvent, StepDone
from activities.refs import CheckpointRef
from tests.activities.attempt_bench import Bench, LoadingEngine, held
from tests.fakes import FakeEngine


async def has_moved(path: Path, engine: FakeEngine, checkpoint: CheckpointRef | None) -> bool:
    """What the heartbeats say once the engine has told all that it has to tell."""
    bench = Bench(path, engine)
    if checkpoint is not None:
        await bench.store.put(checkpoint.key, b"state")
    attempt = bench.start(checkpoint)
    async with asyncio.timeout(10):
        while len(bench.heartbeats) < 2:
            await asyncio.sleep(0.02)
    attempt.cancel()
    await asyncio.wait([attempt])
    return bench.heartbeats[-1].has_moved


async def test_an_attempt_that_hangs_while_it_loads_has_not_moved(tmp_path: Path) -> None:
    assert not await has_moved(tmp_path, LoadingEngine([]), None)


async def test_a_step_is_movement_only_beyond_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = CheckpointRef(key="checkpoints/7/2-2", step=2)
    again: list[EngineEvent] = [StepDone(3, 4)]
    assert await has_moved(tmp_path / "further", held(*again), checkpoint)
    assert await has_moved(tmp_path / "first", held(StepDone(1, 4)), None)


async def test_times_are_by_temporals_clock_whatever_this_machine_says(tmp_path: Path) -> None:
    bench = Bench(tmp_path, held(StepDone(1, 4)))
    bench.ownership.granted_at = granted_at = datetime(2031, 1, 1, tzinfo=UTC)
    attempt = bench.start()
    async with asyncio.timeout(10):
        while not bench.heartbeats or bench.heartbeats[-1].progress.step < 1:
            await asyncio.sleep(0.02)
    attempt.cancel()
    await asyncio.wait([attempt])
    beat = bench.heartbeats[-1]
    assert beat.sent_at is not None
    assert granted_at <= beat.progress.at <= beat.sent_at < granted_at + timedelta(seconds=20)
