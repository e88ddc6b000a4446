"""What is said to a bulk and about it: its id, its order, and how far it is."""

from datetime import datetime
from typing import Literal

from activities.values import Model
from workflows.listing import JobFilter
from workflows.names import job_id_of, workflow_id_for
from workflows.notes import ControlNote

BULK_WORKFLOW = "BulkWorkflow"
CARRY_OUT_BULK = "carry_out_bulk"

# Where a reader finds them in the memo.
ORDER_KEY = "order"
PROGRESS_KEY = "progress"

_ID_PREFIX = "bulk-"

# Each is the signal of this name.
BulkAction = Literal["cancel", "pause", "resume"]
BulkState = Literal["RUNNING", "DONE", "STOPPED"]

# Told by name; beyond these they are only counted.
MAX_TOLD_FAILURES = 20


class BulkOrder(Model):
    """What was asked of which jobs, and by whom. `fingerprint` is that of an idempotent request."""

    action: BulkAction
    filter: JobFilter
    note: ControlNote
    fingerprint: str | None = None


class CarryOutInput(Model):
    """A bulk's order, for the jobs that were accepted until `cutoff_at`."""

    bulk_id: str
    order: BulkOrder
    cutoff_at: datetime


class BulkFailure(Model):
    """A job that could not be asked."""

    job_id: str
    message: str


class BulkProgress(Model):
    """How many jobs were open and fitted at the cut-off, and what became of each.

    `unchanged` were final by then, or as wanted; `refused` were in no state for it.
    """

    matched: int = 0
    asked: int = 0
    unchanged: int = 0
    refused: int = 0
    failed: int = 0
    failures: tuple[BulkFailure, ...] = ()


class BulkView(Model):
    """A bulk as any reader sees it."""

    id: str
    state: BulkState
    order: BulkOrder
    cutoff_at: datetime
    finished_at: datetime | None
    progress: BulkProgress


def bulk_workflow_id(bulk_id: str) -> str:
    """The one place that knows how a bulk's id becomes a workflow's."""
    return f"{_ID_PREFIX}{bulk_id}"


def bulk_id_of(workflow_id: str) -> str:
    """The inverse of `bulk_workflow_id`."""
    return workflow_id.removeprefix(_ID_PREFIX)


def may_be_bulk_id(text: str) -> bool:
    """Whether it can be a bulk's id: they are made as jobs' are."""
    return job_id_of(workflow_id_for(text)) is not None
