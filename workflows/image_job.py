"""ImageJobWorkflow, nothing else."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.models import CLAIM_REFUSED, ClaimInput, ClaimResult
    from workflows.alarm import Alarm
    from workflows.amending import AmendNote, amend_note
    from workflows.attending import attempt
    from workflows.introducing import introduce
    from workflows.job import Job
    from workflows.job_input import UnreadableInputError, read_input
    from workflows.job_record import JobRecord
    from workflows.messages import JobOutcome, JobView
    from workflows.names import (
        IMAGE_JOB_WORKFLOW,
        QUERY_VIEW,
        SIGNAL_AMEND,
        SIGNAL_CANCEL,
        SIGNAL_PAUSE,
        SIGNAL_RESUME,
        UPDATE_CLAIM,
        job_id_of,
    )
    from workflows.notes import ControlNote, control_note

    # Names, not the module: `from workflows import …` would load it anew for every job.
    from workflows.options import MAX_PAUSES
    from workflows.presentation import current_details
    from workflows.search_attributes import current_search_attributes
    from workflows.signals import with_any_payload
    from workflows.state_machine import JobState
    from workflows.succession import start_successor
    from workflows.telling import tell_receivers


@workflow.defn(dynamic=True)
class ImageJobWorkflow:
    """The life of one image job, whatever its type.

    It waits until it may start, then schedules one attempt after another: an activity which claims
    the job, works, and ends with an image, at a checkpoint, or with an error. Signals only note
    wishes; one loop acts on them, and looks first whether the work is done. When the job is final
    the run closes at once, by which a worker that is still busy learns to stop.

    Dynamic, because only a dynamic workflow survives any input: its arguments come undecoded.
    """

    @workflow.init
    def __init__(self, args: Sequence[RawValue]) -> None:
        info = workflow.info()
        request, self._unreadable = None, ""
        try:
            request = read_input(args, workflow.payload_converter())
        except UnreadableInputError as error:
            self._unreadable = str(error)
        job_id = job_id_of(info.workflow_id)
        if job_id is None:
            self._unreadable = "a job's workflow id is job-<id>: lower-case letters, digits and -"
        record = JobRecord(job_id or info.workflow_id, info.workflow_start_time, request)
        self._job = Job(record, workflow.now, workflow.random())
        self._alarm = Alarm()

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> JobOutcome:
        """Live until final. FAILED and TIMEOUT_CANCELLED close the run as Failed."""
        if workflow.info().workflow_type != IMAGE_JOB_WORKFLOW:
            # Fails the task, not the run: a worker of a newer build may know this type.
            raise RuntimeError(f"no workflow type {workflow.info().workflow_type} is served here")
        life = asyncio.create_task(self._live())
        while not life.done():
            try:
                await asyncio.shield(life)
            except asyncio.CancelledError:
                # An eviction cancels the life too; `temporal workflow cancel` is only a wish.
                if life.cancelled():
                    raise
                self._note_cancel(ControlNote(message="cancelled with `temporal workflow cancel`"))
        life.result()
        status = self._job.record.status
        if status.error is not None:
            raise ApplicationError(status.error.message, type=status.error.kind, non_retryable=True)
        artifact = status.result.artifact if status.result else None
        return JobOutcome(state=self._job.state, artifact=artifact)

    async def _live(self) -> None:
        introduce(self._job.record)
        telling = asyncio.create_task(tell_receivers(self._job.record))
        if self._unreadable:
            self._job.fail_unreadable(self._unreadable)
            self._publish()
        else:
            while not self._job.state.is_terminal:
                await self._next_stage()
        await telling
        # A claim that is just being answered must reach its worker before the run is gone.
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _next_stage(self) -> None:
        job = self._job
        if job.wishes.any:
            job.grant_wishes()
        elif job.state is JobState.PAUSED and job.limits.pause_left > timedelta(0):
            await self._wait_for_wishes(job.limits.pause_left, "longest pause")
        elif job.state is JobState.PAUSED:
            job.moves.time_out_paused()
        elif job.limits.delay > timedelta(0):
            await self._wait_for_wishes(job.limits.delay, "until the next attempt may start")
        elif job.limits.queue_time_left > timedelta(0):
            await attempt(job, self._alarm, self._publish)
        else:
            job.moves.time_out_in_queue()
        # Before anybody can see the success, so that whoever sees it finds the successor too.
        await start_successor(job.record.view())
        self._publish()

    async def _wait_for_wishes(self, limit: timedelta, summary: str) -> None:
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._job.wishes.any, timeout=limit, timeout_summary=summary
            )

    def _publish(self) -> None:
        """Tell the world what has changed, in two history events at the most."""
        job = self._job
        is_to_be_found_anew = job.record.has_untold_attributes
        if memo := job.record.changed_memo():
            workflow.upsert_memo(memo)
        if is_to_be_found_anew:
            workflow.upsert_search_attributes(current_search_attributes(job.record))
        workflow.set_current_details(current_details(job.record, job.refused))
        # The alarm of a run that closes needs no cancelling, which would be one more event.
        if job.state in (JobState.PENDING, JobState.PAUSED):
            self._alarm.silence()

    @workflow.update(name=UPDATE_CLAIM)
    def claim(self, input: ClaimInput) -> ClaimResult:
        """START: the worker that asks owns the job until its attempt ends."""
        self._job.claim(input.worker)
        self._publish()
        self._alarm.set(self._job.limits.processing_left)
        return ClaimResult(granted_at=workflow.now())

    @claim.validator
    def refuse_claim(self, input: ClaimInput) -> None:
        """A refused claim leaves no trace in history, and its worker never touches its engine."""
        if reason := self._job.refusal_of(input):
            raise ApplicationError(reason, type=CLAIM_REFUSED)

    @workflow.query(name=QUERY_VIEW)
    def view(self) -> JobView:
        """The job as its memo tells it, for the CLI and the Web UI."""
        return self._job.record.view()

    @workflow.signal(name=SIGNAL_CANCEL)
    @with_any_payload
    def cancel(self, note: RawValue) -> None:
        """Wish that the job ends now."""
        self._note_cancel(control_note(note, workflow.payload_converter()))

    @workflow.signal(name=SIGNAL_PAUSE)
    @with_any_payload
    def pause(self, note: RawValue) -> None:
        """Wish that the job stops at its next checkpoint."""
        if self._job.ledger.may_pause:
            wish = control_note(note, workflow.payload_converter())
            self._refuse(self._job.wishes.ask_pause(wish, self._job.state))
        else:
            self._refuse(f"PAUSE was refused: a job is paused at most {MAX_PAUSES} times")

    @workflow.signal(name=SIGNAL_RESUME)
    @with_any_payload
    def resume(self, note: RawValue) -> None:
        """Wish that a paused job goes on, or take a pause back."""
        wish = control_note(note, workflow.payload_converter())
        self._refuse(self._job.wishes.ask_resume(wish, self._job.state))

    @workflow.signal(name=SIGNAL_AMEND)
    @with_any_payload
    def amend(self, note: RawValue) -> None:
        """Wish for another priority, or another limit of the processing time."""
        wish, job = amend_note(note, workflow.payload_converter()), self._job
        if isinstance(wish, AmendNote):
            amended = len(job.record.status.amendments)
            self._refuse(job.wishes.ask_amend(wish, job.state, amended))
        else:
            self._refuse(wish)

    @workflow.signal(dynamic=True)
    def unknown_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """A mistyped signal would else be accepted in silence."""
        known = f"{SIGNAL_CANCEL}, {SIGNAL_PAUSE}, {SIGNAL_RESUME} and {SIGNAL_AMEND}"
        self._refuse(f"there is no signal {name!r}; a job knows {known}")

    def _note_cancel(self, note: ControlNote) -> None:
        self._refuse(self._job.wishes.ask_cancel(note, self._job.state))

    def _refuse(self, reason: str | None) -> None:
        if reason is not None:
            self._job.refused = reason
            workflow.logger.warning(reason)
            workflow.set_current_details(current_details(self._job.record, reason))
