"""Staying with an attempt from its dispatch to its end, and acting on what is asked meanwhile."""

from collections.abc import Callable

from temporalio import workflow

from workflows.alarm import Alarm
from workflows.dispatching import Work, schedule_work
from workflows.job import Job
from workflows.looks import await_results, idle_seconds
from workflows.settling import settle
from workflows.state_machine import JobState


async def attempt(job: Job, alarm: Alarm, publish: Callable[[], None]) -> None:
    """Schedule one execution of the work activity, and stay with it until it is settled."""
    work = schedule_work(job)
    while not work.done() and job.has_attempt:
        await workflow.wait_condition(
            lambda: work.done() or job.wishes.call_for_action or alarm.rings
        )
        # A result beats any wish.
        if not work.done():
            await _interrupt(job, work, alarm)
            publish()
    if job.has_attempt:
        await settle(job, work)


async def _interrupt(job: Job, work: Work, alarm: Alarm) -> None:
    if job.wishes.cancel:
        if job.state is JobState.PROCESSING:
            await await_results()
        if not work.done():
            job.cancel()
    elif job.wishes.call_for_pause and job.state is JobState.PENDING:
        job.grant_wishes()
        work.cancel()
    elif job.wishes.call_for_pause:
        job.begin_pause()
        work.cancel()
    elif job.wishes.amendments:
        _amend(job, work, alarm)
    elif alarm.rings:
        await _judge_limit(job, work, alarm)


def _amend(job: Job, work: Work, alarm: Alarm) -> None:
    job.amend()
    if not job.has_attempt:
        work.cancel()
    elif job.state is JobState.PROCESSING:
        # Whatever was changed: the limit may have been about to be judged.
        alarm.set(job.limits.processing_left)


async def _judge_limit(job: Job, work: Work, alarm: Alarm) -> None:
    alarm.silence()
    idle = await idle_seconds(job.record.status.dispatch, job.limits.idle_before)
    # Much may have happened while the watchdog looked; whatever it is comes first. What it saw
    # counts for nothing where the limit is another one by now: the alarm will ring again.
    if not work.done() and not job.wishes.cancel and not job.wishes.amendments:
        extension = job.judge_limit(idle)
        if extension:
            alarm.set(extension)
