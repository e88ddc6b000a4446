"""Engine processes: stops, cancellations, slots side by side, logs, and nothing left behind."""

import asyncio
import logging
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from activities.engines.base import CheckpointTaken, StartedOver, StepDone
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.errors import WorkError
from tests.activities.engine_jobs import (
    FAULTY,
    PATIENT,
    image_of,
    parameters,
    run,
    serving,
    steps_of,
    stopped,
)
from tests.faulty_engine import LOADS
from tests.processes import children_of, descendants_of, is_running, open_files, until

PROJECT = Path(__file__).resolve().parents[2]

HOLD_A_JOB = """
import asyncio, sys
from pathlib import Path
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.models import GenerationParameters

async def main(parameters):
    engine = ChildProcessEngine("faulty", "tests.faulty_engine:FaultyEngine", 1, StallLimits(), 5)
    async with engine.open("job-7", parameters, None, Path("/tmp")) as run:
        async for event in run.events():
            pass

asyncio.run(main(GenerationParameters.model_validate_json(sys.argv[1])))
"""


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_stop_at_the_next_step_leaves_a_checkpoint_to_go_on_from(
    after: int, tmp_path: Path
) -> None:
    work = parameters(steps=4, step_seconds=0.2)
    async with serving() as engine:
        undisturbed = image_of(await run(engine, work, tmp_path))
        events = await stopped(engine, work, tmp_path, after=after)
        last = events[-1]
        assert isinstance(last, CheckpointTaken)
        assert last.step == max(steps_of(events)) < 4
        resumed = await run(engine, work, tmp_path, last.data)
        assert steps_of(resumed) == list(range(last.step + 1, 5))
        assert image_of(resumed) == undisturbed


async def test_a_stop_without_a_checkpoint_takes_none(tmp_path: Path) -> None:
    work = parameters(steps=100, step_seconds=0.05)
    async with serving() as engine:
        events = await stopped(engine, work, tmp_path, checkpoint=False)
        assert all(isinstance(event, StepDone) for event in events)
        assert image_of(await run(engine, parameters(), tmp_path))


async def test_an_engine_without_checkpoints_stops_without_one(tmp_path: Path) -> None:
    work = parameters(steps=100, step_seconds=0.05)
    async with serving(spec="tests.faulty_engine:NoCheckpointEngine") as engine:
        events = await stopped(engine, work, tmp_path)
        assert all(isinstance(event, StepDone) for event in events)
        assert len(events) < 100


@pytest.mark.parametrize("fault", ["ignore_stop", "hang_native"])
async def test_an_engine_that_does_not_stop_is_killed_after_its_grace(
    fault: str, tmp_path: Path
) -> None:
    async with serving() as engine:
        events = await stopped(engine, parameters(fault=fault, at_step=2), tmp_path, grace=0.3)
        assert steps_of(events) == [1]
        assert image_of(await run(engine, parameters(), tmp_path))


async def test_the_shorter_grace_of_two_requests_counts(tmp_path: Path) -> None:
    work = parameters(fault="ignore_stop", at_step=2)
    async with serving() as engine, engine.open("job-7", work, None, tmp_path) as job:
        job.request_stop(checkpoint=True, grace_seconds=3600)
        job.request_stop(checkpoint=False, grace_seconds=0.2)
        job.request_stop(checkpoint=False, grace_seconds=3600)
        async with asyncio.timeout(10):
            assert steps_of([event async for event in job.events()]) in ([], [1])


async def test_leaving_a_job_frees_the_slot_within_the_cancel_grace(tmp_path: Path) -> None:
    async with serving(grace=0.2) as engine:
        with pytest.raises(LookupError):
            async with engine.open("job-7", parameters(fault="hang"), None, tmp_path):
                raise LookupError
        assert image_of(await run(engine, parameters(), tmp_path))


async def test_a_damaged_checkpoint_starts_over_with_a_reason(tmp_path: Path) -> None:
    async with serving() as engine:
        events = await run(engine, parameters(), tmp_path, b"nonsense")
        assert events[0] == StartedOver("the checkpoint is damaged")
        assert steps_of(events) == [1, 2, 3]


async def test_a_checkpoint_of_many_megabytes_goes_both_ways(tmp_path: Path) -> None:
    work = parameters(checkpoint_bytes=40_000_000, step_seconds=0.2)
    async with serving() as engine:
        last = (await stopped(engine, work, tmp_path))[-1]
        assert isinstance(last, CheckpointTaken)
        assert len(last.data) == 40_000_000
        assert steps_of(await run(engine, work, tmp_path, last.data))[-1] == 3


async def test_a_cancelled_consumer_never_breaks_what_the_next_job_reads(tmp_path: Path) -> None:
    chance = random.Random(7)
    work = parameters(steps=4, checkpoint_bytes=3_000_000, step_seconds=0.005)
    async with serving(grace=1) as engine:
        expected = image_of(await run(engine, work, tmp_path))
        for round_ in range(40):
            job = asyncio.create_task(stopped(engine, work, tmp_path))
            await asyncio.sleep(chance.random() * 0.04)
            for _ in range(chance.choice((1, 1, 2, 3))):
                job.cancel()
                await asyncio.sleep(chance.choice((0, 0, 0.002)))
            await asyncio.gather(job, return_exceptions=True)
            other = parameters(prompt=f"lake {round_}")
            assert steps_of(await run(engine, other, tmp_path)) == [1, 2, 3]
        assert image_of(await run(engine, work, tmp_path)) == expected


async def test_two_slots_work_side_by_side_and_one_outlives_the_other(tmp_path: Path) -> None:
    slow = parameters(steps=8, step_seconds=0.1)
    async with serving(slots=2) as engine:
        other = asyncio.create_task(run(engine, slow, tmp_path))
        for fault in ("segfault", "sigkill"):
            with pytest.raises(WorkError):
                await run(engine, parameters(fault=fault), tmp_path)
        assert not other.done()
        assert steps_of(await other) == list(range(1, 9))


async def test_the_model_is_loaded_once_per_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOADS, str(tmp_path / "loads"))
    async with serving(slots=2) as engine:
        for _ in range(6):
            await run(engine, parameters(), tmp_path)
        with suppress(WorkError):
            await run(engine, parameters(fault="raise"), tmp_path)
        # Also while nobody waits for it.
        await until(lambda: len((tmp_path / "loads").read_text().split()) == 3)
    assert len(set((tmp_path / "loads").read_text().split())) == 3


async def test_log_lines_carry_their_job_and_a_giant_one_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "darkroom.engine")
    async with serving() as engine:
        for number in range(5):
            work = parameters(
                prompt=f"p{number}.", at_step=3, fault="print_junk", junk_bytes=3_000_000
            )
            await run(engine, work, tmp_path, job_id=f"job-{number}")
        await until(lambda: "a line of p4." in caplog.text)
    for number in range(5):
        assert f"job[job-{number}]: a line of p{number}." in caplog.text
    assert len(caplog.text) < 100_000


async def test_temporary_files_of_a_job_are_in_its_scratch_folder(tmp_path: Path) -> None:
    async with serving() as engine:
        with pytest.raises(WorkError):
            await run(engine, parameters(fault="leave_files"), tmp_path)
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("new_session", [False, True])
async def test_what_an_engine_has_started_goes_with_it(tmp_path: Path, new_session: bool) -> None:
    pid_file = tmp_path / "pid"
    work = parameters(fault="fork_child", pid_file=str(pid_file), new_session=new_session)
    async with serving() as engine:
        await run(engine, work, tmp_path)
        [child, *_] = [pid for pid in children_of(os.getpid()) if len(children_of(pid)) > 1]
        os.kill(child, signal.SIGKILL)
        await until(lambda: not is_running(int(pid_file.read_text())))
        assert image_of(await run(engine, parameters(), tmp_path))


@pytest.mark.parametrize("new_session", [False, True])
@pytest.mark.parametrize("fault", ["hang", "hang_native"])
async def test_nothing_outlives_a_worker_that_is_killed(
    fault: str, tmp_path: Path, new_session: bool
) -> None:
    pid_file = tmp_path / "pid"
    work = parameters(fault=f"fork_child+{fault}", pid_file=str(pid_file), new_session=new_session)
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLD_A_JOB, work.model_dump_json()), cwd=PROJECT
    )
    try:
        await until(lambda: len(descendants_of(worker.pid)) == 4)
        pids = descendants_of(worker.pid)
    finally:
        worker.kill()
        await worker.wait()
    await until(lambda: not any(is_running(pid) for pid in pids), seconds=5)


async def test_stopping_ends_a_job_that_still_runs_and_starts_nothing_again(
    tmp_path: Path,
) -> None:
    engine = ChildProcessEngine("faulty", FAULTY, 1, PATIENT, 5)
    others = children_of(os.getpid())
    job = asyncio.create_task(run(engine, parameters(fault="hang"), tmp_path))
    await until(lambda: children_of(os.getpid()) != others)
    await engine.stop()
    with pytest.raises(WorkError, match="was stopped"):
        await job
    assert children_of(os.getpid()) == others


async def test_two_hundred_jobs_and_many_deaths_leak_no_file(tmp_path: Path) -> None:
    async with serving(limits=StallLimits(load=30, step=30, decode=30)) as engine:
        await run(engine, parameters(), tmp_path)
        before = open_files()
        for number in range(200):
            fault = {"fault": "os_exit"} if number % 20 == 0 else {}
            with suppress(WorkError):
                await run(engine, parameters(steps=1, **fault), tmp_path)
        await run(engine, parameters(), tmp_path)
        await until(lambda: open_files() <= before)
