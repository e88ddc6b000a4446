"""The image of an attempt: once it is stored the attempt is complete."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from activities.engine_work import EngineWork
from activities.engines.process import ChildProcessEngine
from activities.engines.slot import StallLimits
from activities.errors import ErrorKind, WorkError
from activities.generation import GenerationActivities
from activities.imaging.labels.profile import LabelProfile
from activities.label_settings import LabelSettings
from activities.models import WorkInput, WorkResult
from activities.scratch import Scratch
from tests.activities.attempt_bench import GRACES, IMAGE, STEPS, Bench, failing_after, held
from tests.activities.engine_jobs import parameters, serving
from tests.fakes import UNLABELLED, FakeEngine


@pytest.fixture
async def scratch(tmp_path: Path) -> AsyncIterator[Scratch]:
    made = Scratch(tmp_path / "scratch")
    yield made
    made.close()


async def test_an_engine_that_fails_after_its_image_takes_nothing_back(tmp_path: Path) -> None:
    made = Bench(tmp_path, failing_after(*STEPS, IMAGE))
    result = await made.start()
    assert result.artifact is not None
    assert made.stored == [result.artifact.key]


async def test_an_engine_that_goes_on_after_its_image_is_not_waited_for(tmp_path: Path) -> None:
    made = Bench(tmp_path, held(*STEPS, IMAGE))
    async with asyncio.timeout(5):
        assert (await made.start()).artifact is not None


@pytest.mark.parametrize("fault", ["raise", "hang", "sigkill"])
async def test_a_real_engine_that_breaks_after_its_image_costs_no_attempt(
    fault: str, tmp_path: Path, scratch: Scratch
) -> None:
    bench = Bench(tmp_path, FakeEngine([]))

    async def attempt(engine: ChildProcessEngine, **options: Any) -> WorkResult:
        engine_work = EngineWork(engine, bench.store, scratch, bench.ownership, "me", GRACES)
        activities = GenerationActivities(engine_work, UNLABELLED)
        work = WorkInput(job_id="7", tenant="default", dispatch=1, parameters=parameters(**options))
        return await bench.environment.run(activities.generate_image, work)

    async with serving(limits=StallLimits(load=30, step=30, decode=30), grace=0.3) as engine:
        broken = await attempt(engine, after_image=fault)
        whole = await attempt(engine)
    assert broken.artifact is not None
    assert broken.artifact == whole.artifact
    assert bench.stored == [broken.artifact.key]


async def test_label_that_was_drawn_is_kept_once_for_all_images(tmp_path: Path) -> None:
    finisher = LabelSettings().finisher()
    results = [
        await Bench(tmp_path, FakeEngine([*STEPS, IMAGE]), finisher=finisher).start()
        for _ in range(2)
    ]
    [kept] = (tmp_path / "artifacts/labels").iterdir()
    assert LabelProfile.read(kept) == finisher.label
    assert [result.label and result.label.profile for result in results] == [kept.stem] * 2


async def test_looking_at_the_image_has_a_limit(tmp_path: Path) -> None:
    made = Bench(tmp_path, FakeEngine([*STEPS, IMAGE]), inspect_seconds=0)
    assert (await made.fails()).kind is ErrorKind.ENGINE_CRASHED
    assert made.message == "the engine's image could not be decoded in 0 s"
    assert made.stored == []


async def test_image_for_which_there_is_no_memory_is_told_as_such(tmp_path: Path) -> None:
    def compute() -> None:
        raise MemoryError

    with pytest.raises(WorkError, match="could not be labelled: out of memory") as failure:
        await Bench(tmp_path, held()).work.in_thread(compute, "the image could not be labelled")
    assert failure.value.kind is ErrorKind.OUT_OF_MEMORY
