"""ImageJobWorkflow, nothing else."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.models import CLAIM_REFUSED, ClaimInput, ClaimResult, WorkInput, WorkResult
    from workflows.any_payload import with_any_payload
    from workflows.job import Job
    from workflows.job_input import UnreadableInputError, read_input
    from workflows.job_record import JobRecord, memo_corrections
    from workflows.looks import await_results, idle_seconds, lost_at
    from workflows.messages import (
        IMAGE_JOB_WORKFLOW,
        QUERY_VIEW,
        SIGNAL_CANCEL,
        SIGNAL_PAUSE,
        SIGNAL_RESUME,
        UPDATE_CLAIM,
        ControlNote,
        ImageJobInput,
        JobOutcome,
        JobView,
        attempt_activity_id,
        control_note,
        job_id_of,
    )

    # Names, not the module: `from workflows import …` would load it anew for every job.
    from workflows.options import (
        HEARTBEAT_TIMEOUT,
        MAX_PAUSES,
        OUTAGE_SILENCE,
        WORK_RETRY,
        work_timeout,
    )
    from workflows.outcomes import (
        AttemptFailure,
        is_made_up,
        read_failure,
        read_result,
        unreadable_result,
    )
    from workflows.presentation import attempt_summary, current_details
    from workflows.search_attributes import current_search_attributes, initial_search_attributes
    from workflows.state_machine import JobState
    from workflows.succession import start_successor
    from workflows.telling import tell_receivers
    from workflows.work import work_route

_REFUSE_MADE_UP_RESULTS = "refuse-made-up-results"

# Undecoded: `temporal activity complete` can put anything there, and must not wedge the job.
Work = workflow.ActivityHandle[RawValue]


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
        self._alarm: asyncio.Task[None] | None = None
        self._limit_reached = False

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
        self._introduce(self._job.record.request)
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

    def _introduce(self, request: ImageJobInput | None) -> None:
        """Make a job that was started by hand as readable as one that the API started."""
        # Undecoded: what nobody can decode must not wedge the job.
        memo = workflow.info().raw_memo
        corrections = memo_corrections(request, memo, workflow.payload_converter())
        if corrections:
            workflow.upsert_memo(corrections)
        if request is None:
            return
        self._job.record.update(startable_at=request.start_at)
        if corrections:
            pairs = initial_search_attributes(request, self._job.record.created_at)
            workflow.upsert_search_attributes([pair.key.value_set(pair.value) for pair in pairs])

    async def _next_stage(self) -> None:
        job = self._job
        if job.wishes.any:
            job.grant_wishes()
        elif job.state is JobState.PAUSED and job.pause_left > timedelta(0):
            await self._wait_for_wishes(job.pause_left, "longest pause")
        elif job.state is JobState.PAUSED:
            job.time_out_paused()
        elif job.delay > timedelta(0):
            await self._wait_for_wishes(job.delay, "until the next attempt may start")
        elif job.queue_time_left > timedelta(0):
            await self._attempt()
        else:
            job.time_out_in_queue()
        # Before anybody can see the success, so that whoever sees it finds the successor too.
        await start_successor(job.record.view())
        self._publish()

    async def _wait_for_wishes(self, limit: timedelta, summary: str) -> None:
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._job.wishes.any, timeout=limit, timeout_summary=summary
            )

    async def _attempt(self) -> None:
        """Schedule one execution of the work activity, and stay with it until it is settled."""
        work = self._schedule_work()
        while not work.done() and not self._has_given_up_attempt():
            await workflow.wait_condition(
                lambda: work.done() or self._job.wishes.call_for_action or self._limit_reached
            )
            # A result beats any wish.
            if not work.done():
                await self._interrupt(work)
        if not self._has_given_up_attempt():
            await self._settle(work)

    def _has_given_up_attempt(self) -> bool:
        return self._job.state.is_terminal or self._job.state is JobState.PAUSED

    def _schedule_work(self) -> Work:
        dispatch, record = self._job.next_dispatch(), self._job.record
        request = self._job.request
        route = work_route(request)
        work: Work = workflow.start_activity(
            route.activity,
            WorkInput(
                job_id=record.job_id,
                tenant=request.tenant,
                dispatch=dispatch,
                parameters=request.parameters,
                checkpoint=record.status.checkpoint,
                predecessor_id=request.predecessor_id,
                removal=request.removal,
            ),
            result_type=RawValue,
            task_queue=route.task_queue,
            activity_id=attempt_activity_id(dispatch),
            schedule_to_start_timeout=self._job.queue_time_left,
            start_to_close_timeout=work_timeout(request),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=WORK_RETRY,
            # A pause waits for its checkpoint. An attempt that is given up isn't awaited at all.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=attempt_summary(record, self._job.ledger.current),
        )
        # An attempt that was given up may fail with nobody to await it.
        work.add_done_callback(lambda task: task.cancelled() or task.exception())
        return work

    async def _interrupt(self, work: Work) -> None:
        job = self._job
        if job.wishes.cancel:
            if job.state is JobState.PROCESSING:
                await await_results()
            if not work.done():
                job.cancel()
        elif job.wishes.call_for_action and job.state is JobState.PENDING:
            job.grant_wishes()
            work.cancel()
        elif job.wishes.call_for_action:
            job.begin_pause()
            work.cancel()
        elif self._limit_reached:
            await self._judge_limit(work)
        self._publish()

    async def _judge_limit(self, work: Work) -> None:
        self._limit_reached = False
        idle = await idle_seconds(self._job.record.status.dispatch, self._job.idle_before)
        # Much may have happened while the watchdog looked; whatever it is comes first.
        if not work.done() and not self._job.wishes.cancel:
            extension = self._job.judge_limit(idle)
            if extension:
                self._set_alarm(extension)

    async def _settle(self, work: Work) -> None:
        # Before its claim nobody knows which worker an attempt was given to.
        claimed = self._job.state is JobState.PROCESSING
        worker = self._job.record.status.worker or "" if claimed else ""
        outcome: WorkResult | AttemptFailure
        try:
            outcome = read_result(work.result(), workflow.payload_converter(), worker)
        except ActivityError as error:
            outcome = read_failure(error, worker)
            if outcome.heard_at is not None and claimed:
                at = await lost_at(error.scheduled_event_id)
                silence = at - outcome.heard_at if at else timedelta(0)
                if silence > OUTAGE_SILENCE:
                    self._job.settle_outage(outcome, silence)
                    return
        # Jobs that took such a result must still replay; only one that is made up costs a marker.
        is_unfit = isinstance(outcome, WorkResult) and is_made_up(outcome, self._job.record.job_id)
        if is_unfit and workflow.patched(_REFUSE_MADE_UP_RESULTS):
            outcome = unreadable_result(worker)
        self._job.settle(outcome)

    def _publish(self) -> None:
        """Tell the world what has changed, in two history events at the most."""
        job = self._job
        has_moved = job.record.has_untold_transitions
        if memo := job.record.changed_memo():
            workflow.upsert_memo(memo)
        if has_moved:
            workflow.upsert_search_attributes(current_search_attributes(job.record))
        workflow.set_current_details(current_details(job.record, job.refused))
        # The alarm of a run that closes needs no cancelling, which would be one more event.
        if job.state in (JobState.PENDING, JobState.PAUSED):
            self._set_alarm(None)

    def _set_alarm(self, delay: timedelta | None) -> None:
        """Ring after `delay`, or not at all; an earlier alarm is forgotten."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._limit_reached = False
        self._alarm = asyncio.create_task(self._ring_after(delay)) if delay is not None else None

    async def _ring_after(self, delay: timedelta) -> None:
        await workflow.sleep(delay, summary="processing limit")
        self._limit_reached = True

    @workflow.update(name=UPDATE_CLAIM)
    def claim(self, input: ClaimInput) -> ClaimResult:
        """START: the worker that asks owns the job until its attempt ends."""
        self._job.claim(input.worker)
        self._publish()
        self._set_alarm(max(self._job.processing_left, timedelta(0)))
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

    @workflow.signal(dynamic=True)
    def unknown_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """A mistyped signal would else be accepted in silence."""
        known = f"{SIGNAL_CANCEL}, {SIGNAL_PAUSE} and {SIGNAL_RESUME}"
        self._refuse(f"there is no signal {name!r}; a job knows {known}")

    def _note_cancel(self, note: ControlNote) -> None:
        self._refuse(self._job.wishes.ask_cancel(note, self._job.state))

    def _refuse(self, reason: str | None) -> None:
        if reason is not None:
            self._job.refused = reason
            workflow.logger.warning(reason)
            workflow.set_current_details(current_details(self._job.record, reason))
