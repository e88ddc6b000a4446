"""Which jobs a bulk is about, and asking one of them.

Visibility finds runs. Whether a run was meant, the run itself tells: what it was at the cut-off
stands in its record, with the time of every transition. So it matters neither how old its search
attributes are, nor how often or how late a bulk looks, and a job that comes into a state only after
the cut-off is none of the bulk's.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from enum import StrEnum

from temporalio.api.common.v1 import Payloads
from temporalio.api.common.v1 import WorkflowExecution as ExecutionId
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from workflows.asking import Verdict, advise, has_no_signals_left
from workflows.bulk_marks import BulkMark, askers_since
from workflows.bulk_messages import BulkFailure, CarryOutInput, bulk_workflow_id
from workflows.ended_runs import as_it_ended
from workflows.hearing import (
    Standing,
    asked_in_all,
    asked_on_record,
    is_in_flight,
    unheard_signals,
)
from workflows.listing import JobFilter, is_wanted, job_query, moment
from workflows.messages import JobView, with_status
from workflows.names import SIGNAL_CANCEL, job_id_of, worker_source
from workflows.options import BULK_CALL_TIMEOUT
from workflows.recalling import recall_what_is_left
from workflows.state_machine import JobEvent, JobState


class Outcome(StrEnum):
    """What became of one job of a bulk."""

    ASKED = "asked"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class AskingFailedError(Exception):
    """One job can't be asked, whoever tries; others can."""

    def __init__(self, failure: BulkFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def bulk_query(wanted: JobFilter, cutoff_at: datetime) -> str:
    """The runs that were open at the cut-off, by what of a job never changes.

    With those that have ended since, so that whoever begins anew counts the same jobs.
    """
    changing = {"states": (), "workers": (), "priorities": ()}
    since = {"updated_before": None, "running_longer_than_seconds": None}
    lasting = wanted.model_copy(update=changing | since)
    cutoff = moment(cutoff_at)
    was_open = f'(ExecutionStatus = "Running" OR CloseTime >= {cutoff})'
    return f"{job_query(lasting, cutoff_at)} AND StartTime <= {cutoff} AND {was_open}"


def as_of(view: JobView, at: datetime) -> JobView:
    """The job as it was at a time: its state, since when, its worker and its priority."""
    return _with_past_priority(_with_past_state(view, at), at)


def _with_past_state(view: JobView, at: datetime) -> JobView:
    past = tuple(t for t in view.transitions if t.at <= at)
    # Of a damaged record the state is known, and not how it came about.
    if len(past) == len(view.transitions):
        return view
    source = next((t.source for t in reversed(past) if t.event is JobEvent.START), None)
    worker = source.removeprefix(worker_source("")) if source else None
    known = {
        "state": past[-1].to_state if past else JobState.PENDING,
        "updated_at": past[-1].at if past else view.created_at,
        "transitions": past,
    }
    return with_status(view.model_copy(update=known), worker=worker)


def _with_past_priority(view: JobView, at: datetime) -> JobView:
    amendments = view.status.amendments
    past = tuple(a for a in amendments if a.at <= at)
    # Of a damaged record the priority is known, and not how it came about.
    if len(past) == len(amendments):
        return view
    known = next((a.priority for a in reversed(past) if a.priority is not None), None)
    return with_status(view, priority=known, amendments=past)


def was_meant(wanted: JobFilter, view: JobView, cutoff_at: datetime) -> bool:
    """Whether a run that the query found was open and wanted at the cut-off."""
    then = as_of(view, cutoff_at)
    has_worker = not wanted.workers or then.status.worker in wanted.workers
    return not then.state.is_terminal and has_worker and is_wanted(wanted, then, cutoff_at)


class BulkJobs:
    """Asks the jobs of one bulk, each at most once, however often it is told to."""

    def __init__(self, client: Client, input: CarryOutInput) -> None:
        self._client = client
        self._order = input.order
        self._cutoff_at = input.cutoff_at
        self._mark = BulkMark(bulk_id=input.bulk_id, cutoff_at=input.cutoff_at)
        self._request_id = bulk_workflow_id(input.bulk_id)

    async def ask(self, row: WorkflowExecution) -> Outcome | None:
        """Ask one job for the action, if it was meant; None if not.

        Raises `AskingFailedError`, or `RPCError` where Temporal can't be used now.
        """
        standing = await self._standing(row)
        if standing is None or not was_meant(self._order.filter, standing.view, self._cutoff_at):
            return None
        if not standing.view.is_running:
            return Outcome.ASKED if self._was_ours(standing.view) else Outcome.UNCHANGED
        verdict = advise(self._order.action, standing).verdict
        # Nothing takes a cancel back: what else was asked since doesn't matter.
        is_to_cancel = self._order.action == SIGNAL_CANCEL and verdict is Verdict.SEND
        newer = [] if is_to_cancel else await askers_since(self._events(row), self._cutoff_at)
        if newer:
            return Outcome.ASKED if self._mark in newer else Outcome.UNCHANGED
        if verdict is Verdict.SEND:
            return await self._send(row)
        return Outcome.REFUSED if verdict is Verdict.REFUSE else Outcome.UNCHANGED

    async def _standing(self, row: WorkflowExecution) -> Standing | None:
        """Where the run stands. A row of a closed one is the truth, and of an open one a hint."""
        if row.status is not WorkflowExecutionStatus.RUNNING:
            return await self._standing_of(row)
        try:
            description = await self._handle(row).describe(rpc_timeout=BULK_CALL_TIMEOUT)
        except RPCError as error:
            # It was deleted.
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        standing = await self._standing_of(description)
        if not standing.view.is_running:
            return standing
        asked = standing.asked
        if description.raw_description.HasField("pending_workflow_task"):
            asked = asked_in_all(standing.view, await unheard_signals(self._events(row)))
        view = with_status(standing.view, pending_request=asked.pending_request)
        return Standing(view, asked, is_in_flight=is_in_flight(description))

    async def _standing_of(self, run: WorkflowExecution) -> Standing:
        job_id = job_id_of(run.id) or run.id
        recalled, _ = await recall_what_is_left(job_id, run, self._client.data_converter)
        is_running = run.status is WorkflowExecutionStatus.RUNNING
        view = as_it_ended(recalled, run, "").model_copy(update={"is_running": is_running})
        return Standing(view, asked_on_record(view))

    async def _send(self, row: WorkflowExecution) -> Outcome:
        note = await self._client.data_converter.encode([self._order.note])
        request = SignalWorkflowExecutionRequest(
            namespace=self._client.namespace,
            # This very run: one that follows it under its id came after the cut-off.
            workflow_execution=ExecutionId(workflow_id=row.id, run_id=row.run_id),
            signal_name=self._order.action,
            input=Payloads(payloads=note),
            header=self._mark.as_header(),
            identity=self._client.identity,
            # A run drops a signal whose request it has seen, and remembers it for all its life.
            request_id=self._request_id,
        )
        try:
            await self._client.workflow_service.signal_workflow_execution(
                request, retry=True, timeout=BULK_CALL_TIMEOUT
            )
        except RPCError as error:
            return await self._without_signal(row, error)
        return Outcome.ASKED

    async def _without_signal(self, row: WorkflowExecution, error: RPCError) -> Outcome:
        """What comes of a signal that was not taken."""
        if error.status is RPCStatusCode.NOT_FOUND:
            # It has ended in between.
            return Outcome.UNCHANGED
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise error
        if has_no_signals_left(error) and self._order.action == SIGNAL_CANCEL:
            # It is none, though it can't say who asked, or why.
            await self._handle(row).cancel(rpc_timeout=BULK_CALL_TIMEOUT)
            return Outcome.ASKED
        message = "Temporal takes no more signals for this job"
        if not has_no_signals_left(error):
            message = "Temporal refused the signal"
        failure = BulkFailure(job_id=job_id_of(row.id) or row.id, message=message)
        raise AskingFailedError(failure) from error

    def _was_ours(self, view: JobView) -> bool:
        """Whether a job has ended by this bulk's cancel, which an earlier try may have sent."""
        note, end = self._order.note, view.transitions[-1] if view.transitions else None
        return (
            self._order.action == SIGNAL_CANCEL
            and end is not None
            and end.event is JobEvent.CANCEL
            and end.at > self._cutoff_at
            and end.source == note.source
            and (not note.message or end.message == note.message)
        )

    def _handle(self, row: WorkflowExecution) -> WorkflowHandle[object, object]:
        return self._client.get_workflow_handle(row.id, run_id=row.run_id)

    def _events(self, row: WorkflowExecution) -> AsyncIterator[HistoryEvent]:
        return self._handle(row).fetch_history_events()
