"""Engines with real faults in real processes: what a user is told, and that the slot serves on."""

import asyncio
import os
from contextlib import ExitStack, aclosing
from pathlib import Path

import pytest

from activities.engines.base import ImageDone, PhaseBegun, StepDone
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.errors import ErrorKind, WorkError
from activities.models import Phase
from tests.activities.engine_jobs import (
    FAULTY,
    PATIENT,
    image_of,
    parameters,
    run,
    serving,
    stopped,
)
from tests.faulty_engine import LOADS
from tests.processes import children_of, until


async def test_a_job_tells_each_step_then_decoding_then_the_image(tmp_path: Path) -> None:
    async with serving() as engine:
        events = await run(engine, parameters(), tmp_path)
    assert events[:4] == [StepDone(1, 3), StepDone(2, 3), StepDone(3, 3), PhaseBegun(Phase.DECODE)]
    assert isinstance(events[4], ImageDone)
    assert len(events) == 5


CRASHED, MEMORY = ErrorKind.ENGINE_CRASHED, ErrorKind.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("raise", CRASHED, "the engine failed: RuntimeError"),
        ("exit", CRASHED, "the engine's process ended itself with code 3"),
        ("os_exit", CRASHED, "the engine's process ended itself with code 4"),
        ("segfault", CRASHED, "the engine was killed by signal 11 (SIGSEGV)"),
        ("abort", CRASHED, "the engine was killed by signal 6 (SIGABRT)"),
        ("sigkill", MEMORY, "the engine was killed by signal 9, most likely out of memory"),
        ("memory", MEMORY, "the engine ran out of memory"),
        ("oom", MEMORY, "the engine ran out of memory"),
        ("work_error", ErrorKind.CONTENT_REJECTED, "the prompt is not allowed"),
        ("yield_nonsense", CRASHED, "the engine failed: TypeError"),
        ("yield_far_step", CRASHED, "the engine failed: ValidationError"),
        ("yield_step_below_zero", CRASHED, "the engine failed: ValidationError"),
        ("close_events", CRASHED, "the engine's process hung up"),
        (
            "write_garbage_to_events",
            CRASHED,
            "the engine's process said something that can't be understood",
        ),
    ],
)
async def test_a_fault_is_told_in_words_and_the_slot_serves_on(
    fault: str, kind: ErrorKind, message: str, tmp_path: Path
) -> None:
    async with serving() as engine:
        with pytest.raises(WorkError) as failure:
            await run(engine, parameters(fault=fault, at_step=2), tmp_path)
        assert (failure.value.kind, failure.value.message) == (kind, message)
        assert failure.value.retry_after_seconds == (7 if fault == "work_error" else None)
        assert image_of(await run(engine, parameters(), tmp_path))


@pytest.mark.parametrize("kind", ["TIMEOUT", "TERMINATED"])
async def test_an_engine_fails_of_nothing_that_only_the_outside_can_do(
    kind: str, tmp_path: Path
) -> None:
    async with serving() as engine:
        with pytest.raises(WorkError, match="the engine refused: WorkError") as failure:
            await run(engine, parameters(fault="work_error", kind=kind), tmp_path)
        assert failure.value.kind is CRASHED


@pytest.mark.parametrize("garbage", ["\x00" * 8, "\x00\x00\x00\x02\x00\x00\x00\x00{}", "\xff" * 99])
async def test_garbage_that_looks_like_a_frame_is_found_out(garbage: str, tmp_path: Path) -> None:
    work = parameters(fault="write_garbage_to_events", garbage=garbage)
    async with serving() as engine:
        with pytest.raises(WorkError, match="can't be understood"):
            await run(engine, work, tmp_path)
        assert image_of(await run(engine, parameters(), tmp_path))


@pytest.mark.parametrize("fault", ["hang", "hang_native"])
async def test_an_engine_that_hangs_is_killed_after_the_limit_of_its_phase(
    fault: str, tmp_path: Path
) -> None:
    async with serving(limits=StallLimits(load=30, step=0.4, decode=30)) as engine:
        with pytest.raises(WorkError, match=r"no progress for 0\.4 s in phase step") as failure:
            await run(engine, parameters(fault=fault), tmp_path)
        assert failure.value.kind is ErrorKind.ENGINE_STALLED
        assert image_of(await run(engine, parameters(), tmp_path))


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("tests.faulty_engine:BrokenLoadEngine", "the engine could not be loaded: RuntimeError"),
        ("tests.faulty_engine:MissingModelEngine", "the model's folder is missing"),
        ("tests.nowhere:Engine", "the engine could not be loaded: ModuleNotFoundError"),
        ("tests.faulty_engine:Nobody", "the engine could not be loaded: AttributeError"),
    ],
)
async def test_an_engine_that_cannot_be_loaded_is_unavailable(
    engine: str, message: str, tmp_path: Path
) -> None:
    async with serving(spec=engine) as broken:
        with pytest.raises(WorkError) as failure:
            await run(broken, parameters(), tmp_path)
    assert (failure.value.kind, failure.value.message) == (ErrorKind.ENGINE_UNAVAILABLE, message)


async def test_loading_has_a_limit_of_its_own(tmp_path: Path) -> None:
    limits = StallLimits(load=0.5, step=30, decode=30)
    async with serving(limits=limits, spec="tests.faulty_engine:SlowLoadEngine") as engine:
        with pytest.raises(WorkError, match=r"no progress for 0\.5 s in phase load"):
            await run(engine, parameters(), tmp_path)


async def test_a_job_that_is_cancelled_during_the_load_leaves_the_load_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOADS, str(tmp_path / "loads"))
    engine = ChildProcessEngine("faulty", FAULTY, 1, PATIENT, 5)
    others = children_of(os.getpid())
    first = asyncio.create_task(run(engine, parameters(), tmp_path))
    await until(lambda: children_of(os.getpid()) != others)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert image_of(await run(engine, parameters(), tmp_path))
    await engine.stop()
    assert len((tmp_path / "loads").read_text().split()) == 1


async def test_an_image_that_is_too_large_is_refused_with_its_limit(tmp_path: Path) -> None:
    async with serving() as engine:
        with pytest.raises(WorkError) as failure:
            await run(engine, parameters(image_bytes=64 * 2**20 + 1), tmp_path)
        assert failure.value.kind is ErrorKind.ENGINE_CRASHED
        assert failure.value.message == "the engine's image is larger than 64 MiB"
        assert image_of(await run(engine, parameters(image_bytes=64 * 2**20), tmp_path))


async def test_a_job_goes_on_without_a_checkpoint_that_is_too_large(tmp_path: Path) -> None:
    work = parameters(checkpoint_bytes=256 * 2**20 + 1, step_seconds=0.1)
    async with serving() as engine:
        events = await stopped(engine, work, tmp_path)
        assert all(isinstance(event, StepDone) for event in events)
        assert image_of(await run(engine, parameters(), tmp_path))


async def test_a_refusal_in_unprintable_words_stays_a_refusal(tmp_path: Path) -> None:
    async with serving() as engine:
        with pytest.raises(WorkError) as failure:
            await run(engine, parameters(fault="work_error_at_length"), tmp_path)
    assert failure.value.kind is ErrorKind.CONTENT_REJECTED
    assert failure.value.message.startswith("not \ufffd allowed [31m !!!")
    assert len(failure.value.message) == 1000


async def test_an_engine_may_close_its_standard_input(tmp_path: Path) -> None:
    async with serving() as engine:
        image = image_of(await run(engine, parameters(), tmp_path))
        assert image_of(await run(engine, parameters(fault="close_stdin"), tmp_path)) == image
        assert image_of(await run(engine, parameters(), tmp_path)) == image


@pytest.mark.parametrize("fault", ["raise", "hang", "hang_native", "os_exit", "yield_nonsense"])
async def test_what_fails_after_the_image_costs_the_slot_and_not_the_job(
    fault: str, tmp_path: Path
) -> None:
    async with serving(grace=0.3) as engine:
        work = parameters(after_image=fault)
        async with (
            engine.open("job-7", work, None, tmp_path) as job,
            aclosing(job.events()) as events,
        ):
            async for event in events:
                if isinstance(event, ImageDone):
                    break
        assert image_of(await run(engine, parameters(), tmp_path))


async def test_an_engine_that_hangs_up_is_noticed_whatever_the_number_of_its_pipe(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(open(os.devnull, "rb"))  # noqa: ASYNC230
        async with serving() as engine:
            with pytest.raises(WorkError, match="hung up"):
                await run(engine, parameters(fault="close_events"), tmp_path)
