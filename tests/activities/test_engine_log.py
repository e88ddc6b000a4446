"""What engines print: in the worker's log with its job, and never so much that others suffer."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from activities.engines.child_log import ChildLog
from tests.activities.engine_jobs import parameters, run, serving, steps_of
from tests.processes import until

DROPPED = re.compile(r"\((\d+) lines dropped: too many at once\)")


@pytest.fixture(autouse=True)
def logging_is_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "darkroom.engine")


async def copied(log: ChildLog, *chunks: bytes) -> None:
    """Let the log copy what a child has printed."""
    stream = asyncio.StreamReader()
    for chunk in chunks:
        stream.feed_data(chunk)
    stream.feed_eof()
    await log.copy(stream)


@asynccontextmanager
async def longest_pause(pauses: list[float]) -> AsyncIterator[None]:
    """Note the longest time for which the event loop served nobody."""
    loop = asyncio.get_running_loop()

    async def tick() -> None:
        while True:
            began = loop.time()
            await asyncio.sleep(0.005)
            pauses[0] = max(pauses[0], loop.time() - began)

    pauses.append(0.0)
    ticker = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticker.cancel()


async def test_an_engine_that_prints_without_end_holds_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []
    async with serving(slots=2, grace=0.2) as engine:
        flood = asyncio.create_task(run(engine, parameters(fault="flood"), tmp_path))
        await until(lambda: "job[job-7]: x" in caplog.text)
        async with longest_pause(pauses):
            work = parameters(steps=8, step_seconds=0.1)
            assert steps_of(await run(engine, work, tmp_path)) == list(range(1, 9))
            await until(lambda: DROPPED.search(caplog.text) is not None)
        assert not flood.done()
        flood.cancel()
        with suppress(asyncio.CancelledError):
            await flood
    assert pauses[0] < 0.5


async def test_lines_beyond_the_budget_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    await copied(ChildLog(1), b"x\n" * 30_000)
    told = [record.getMessage() for record in caplog.records]
    dropped = sum(int(match[1]) for text in told if (match := DROPPED.search(text)))
    passed_on = [text for text in told if text.endswith(": x")]
    assert 200 <= len(passed_on) < 2000
    assert len(passed_on) + dropped == 30_000


async def test_lines_belong_to_the_job_whose_mark_came_before_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = ChildLog(1)
    log.expect("mark-a", "job-a")
    log.expect("mark-b", "job-b")
    await copied(log, b"one\nmar", b"k-a\ntwo\n", b"mark-b\nthree")
    assert [record.getMessage() for record in caplog.records] == [
        "engine[1] job[-]: one",
        "engine[1] job[job-a]: two",
        "engine[1] job[job-b]: three",
    ]


async def test_a_mark_still_counts_while_lines_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = ChildLog(1)
    log.expect("mark-a", "job-a")
    await copied(log, b"x\n" * 3000 + b"mark-a\n")
    log.expect("mark-b", "job-b")
    await copied(log, b"x\n" * 3000)
    assert DROPPED.search(caplog.records[-1].getMessage())
    assert "job[job-a]" in caplog.records[-1].getMessage()


@pytest.mark.parametrize(
    "forged", [b"\x1edarkroom-job job-b", b"mark-a", b"mark-a ", b"engine[1] job[job-b]: hm"]
)
async def test_what_an_engine_prints_cannot_pass_for_another_job(
    forged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    log = ChildLog(1)
    log.expect("mark-a", "job-a")
    await copied(log, b"mark-a\n" + forged + b"\nline\n\rjob[job-b]: line\x1b[2K\n")
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == f"engine[1] job[job-a]: {forged.decode().strip()}".replace("\x1e", "")
    assert told[1:] == [
        "engine[1] job[job-a]: line",
        "engine[1] job[job-a]: job[job-b]: line [2K",
    ]


async def test_each_job_of_a_child_has_a_mark_of_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forged = "first\n\x1edarkroom-job job-b\nsecond"
    async with serving() as engine:
        await run(engine, parameters(prompt=forged, fault="print_junk"), tmp_path, job_id="job-a")
        await run(engine, parameters(prompt="third", fault="print_junk"), tmp_path, job_id="job-c")
        await until(lambda: "third" in caplog.text)
    assert "job[job-a]: a line of first" in caplog.text
    assert "job[job-a]: second" in caplog.text
    assert "job[job-c]: a line of third" in caplog.text
    assert "job[job-b]" not in caplog.text
