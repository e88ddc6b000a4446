"""The chain: a job's image, and the copy of it without its visible label. Pure.

Both jobs live on their own, and the chain's state is read from both.
"""

import hashlib
from datetime import datetime

from activities.models import RemovalTask
from workflows.messages import ChainState, ImageJobInput, JobView, with_status
from workflows.state_machine import JobState

_LONGEST_ID = 100
_SUFFIX = "-removal"


def removal_id(job_id: str) -> str:
    """The id of the job that removes another one's label: always the same, so there is only one."""
    if len(job_id) + len(_SUFFIX) <= _LONGEST_ID:
        return job_id + _SUFFIX
    return hashlib.sha256(job_id.encode()).hexdigest() + _SUFFIX


def removal_input(view: JobView, asked_by: str, asked_at: datetime) -> ImageJobInput:
    """What the successor of a job that succeeded is asked to do; whoever asked accepted the terms.

    It has its predecessor's tenant, with its weight, the priority that is in force there, and the
    limits that were asked for: an amended one was meant for the other job's work.
    """
    request, result = view.request, view.status.result
    if request is None or result is None:
        raise ValueError("only a job that succeeded has a successor")
    task = RemovalTask(
        source=result.artifact, label=result.label, asked_by=asked_by, asked_at=asked_at
    )
    changes = {
        "type": "WATERMARK_REMOVAL",
        "watermark": "remove",
        "label_terms_accepted": True,
        "priority": view.priority,
        "start_at": None,
        "predecessor_id": view.id,
        "retry_of": None,
        "fingerprint": None,
        "removal": task,
    }
    return ImageJobInput.model_validate(dict(request) | changes)


def in_chain(view: JobView, successor: JobView | None) -> JobView:
    """The job with its chain's state, and with its successor, if it has one.

    `successor` is that of a job whose image was generated; a removal is told by itself.
    """
    if is_removal(view):
        return view.model_copy(update={"chain": _chain_state(view)})
    if successor is None:
        return view
    linked = with_status(view, successor_id=successor.id)
    return linked.model_copy(update={"chain": _chain_state(successor)})


def is_removal(view: JobView) -> bool:
    """Whether the job is the last one of a chain; by its id, where its request can't be read."""
    if view.request is None:
        return view.id.endswith(_SUFFIX)
    return view.request.type == "WATERMARK_REMOVAL"


def predecessor_of(view: JobView) -> str:
    """The id of the job whose label a removal removes; a longer one can't be told from its id."""
    if view.request is None:
        return view.id.removesuffix(_SUFFIX)
    return view.request.predecessor_id or ""


def may_have_successor(view: JobView) -> bool:
    """Whether there can be a job that removes the label of this one's image."""
    return view.state is JobState.SUCCESS and not is_removal(view)


def may_be_retried(view: JobView) -> bool:
    """Whether the job ended without an image, and another one may try the same.

    Where an image was made and its bytes were lost since, only whoever looks for them can tell.
    """
    return view.state.is_terminal and view.state is not JobState.SUCCESS


def _chain_state(removal: JobView) -> ChainState:
    if removal.state is JobState.SUCCESS:
        return ChainState.FINALIZED
    if removal.state.is_terminal:
        return ChainState.REMOVAL_FAILED
    has_begun = removal.status.started_at is not None
    return ChainState.PROCESSING_WATERMARK if has_begun else ChainState.GENERATED
