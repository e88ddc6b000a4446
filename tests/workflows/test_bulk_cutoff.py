"""What a bulk makes of a job that was changed, or asked for something, beside it."""

import asyncio

from tests.workflows.behaviours import work_until_stopped
from tests.workflows.bulks import accepted, carrying_out, signals_of, start_order, told
from tests.workflows.stage import Stage, events_of
from workflows.state_machine import JobState


async def test_what_was_asked_after_the_cutoff_is_newer_than_the_bulk(
    stage: Stage, tenant: str
) -> None:
    async with stage.deciding():
        handle = await stage.start(tenant=tenant)
        await handle.signal("pause")
        await stage.until(handle, JobState.PAUSED)
        bulk = await accepted(stage, "pause", tenant)
        await handle.signal("resume")
        await stage.until(handle, JobState.PENDING)
        assert told(await bulk.sweep()) == {"matched": 1, "unchanged": 1}
    assert await signals_of(handle) == ["pause", "resume"]


async def test_bulk_that_was_accepted_earlier_is_none_newer(stage: Stage, tenant: str) -> None:
    async with stage.deciding():
        handle = await stage.start(tenant=tenant)
        await handle.signal("pause")
        await stage.until(handle, JobState.PAUSED)
        older = await accepted(stage, "resume", tenant)
        newer = await accepted(stage, "pause", tenant)
        assert told(await older.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(handle, JobState.PENDING)
        for _ in range(2):
            assert told(await newer.sweep()) == {"matched": 1, "asked": 1}
            await stage.until(handle, JobState.PAUSED)
            assert told(await older.sweep()) == {"matched": 1, "asked": 1}
    assert await signals_of(handle) == ["pause", "resume", "pause"]


async def test_state_that_counts_is_that_at_the_cutoff(stage: Stage, tenant: str) -> None:
    """A job that starts when another is paused is not paused in its turn."""
    async with stage.deciding(), stage.working(stage.work(work_until_stopped), slots=1):
        first = await stage.start(tenant=tenant)
        await stage.until(first, JobState.PROCESSING)
        second = await stage.start(tenant=tenant)
        bulk = await accepted(stage, "pause", tenant, states=(JobState.PROCESSING,))
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(first, JobState.PAUSED)
        await stage.until(second, JobState.PROCESSING)
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until_decided(second)
        assert events_of(await stage.view(second)) == ["START"]


async def test_job_that_went_on_since_the_cutoff_is_still_meant(stage: Stage, tenant: str) -> None:
    handle = await stage.start(tenant=tenant)
    bulk = await accepted(stage, "cancel", tenant, states=(JobState.PENDING,))
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        worker = (await stage.until(handle, JobState.PROCESSING)).status.worker or ""
        later = await accepted(stage, "cancel", tenant, workers=(f"{worker}-2",))
        assert told(await later.sweep()) == {}
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(handle, JobState.CANCELLED)


async def test_job_that_was_amended_since_the_cutoff_is_asked_all_the_same(
    stage: Stage, tenant: str
) -> None:
    """An amendment is nothing newer than a wish, and nor is what no job knows."""
    async with stage.deciding():
        handle = await stage.start(tenant=tenant)
        bulk = await accepted(stage, "pause", tenant)
        await handle.signal("amend", {"timeout_seconds": 60})
        await handle.signal("paus")
        await stage.until_decided(handle)
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(handle, JobState.PAUSED)


async def test_priority_that_counts_is_that_at_the_cutoff(stage: Stage, tenant: str) -> None:
    async with stage.deciding():
        moved = await stage.start(tenant=tenant, priority=5)
        await moved.signal("amend", {"priority": 7})
        came = await stage.start(tenant=tenant, priority=3)
        for handle in (moved, came):
            await stage.until_decided(handle)
        bulk = await accepted(stage, "cancel", tenant, priorities=(7,))
        for handle, priority in ((moved, 5), (came, 7)):
            await handle.signal("amend", {"priority": priority})
            await stage.until_decided(handle)
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(moved, JobState.CANCELLED)
    assert await signals_of(came) == ["amend"]


async def test_running_job_is_meant_by_its_worker(stage: Stage, tenant: str) -> None:
    async with stage.deciding(), stage.working(stage.work(work_until_stopped)):
        handle = await stage.start(tenant=tenant)
        worker = (await stage.until(handle, JobState.PROCESSING)).status.worker or ""
        bulk = await accepted(stage, "cancel", tenant, workers=(worker,))
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}
        await stage.until(handle, JobState.CANCELLED)
        # Whoever begins anew finds it again, closed by now, and knows whose cancel it was.
        assert told(await bulk.sweep()) == {"matched": 1, "asked": 1}


async def test_last_word_counts_of_bulks_that_ask_for_the_opposite(
    stage: Stage, tenant: str
) -> None:
    """Both are accepted before anybody carries them out, and then carried out at once."""
    queue, ends = f"bulks-{tenant}", []
    async with stage.deciding():
        handles = [await stage.start(tenant=tenant) for _ in range(10)]
        for handle in handles:
            await stage.until_decided(handle)
        for action in ("pause", "resume", "pause"):
            bulk = await start_order(stage, action, tenant, queue)
            stage.handles.append(bulk)
            ends.append(bulk.result())
        async with carrying_out(stage.client, queue):
            pause, resume, again = await asyncio.gather(*ends)
        for handle in handles:
            view = await stage.until(handle, JobState.PAUSED)
            assert events_of(view) == ["PAUSE", "RESUME", "PAUSE"]
    assert [told(end) for end in (pause, resume, again)] == [{"matched": 10, "asked": 10}] * 3
