"""From a job's view to what a client gets."""

from typing import Any

from api.addresses import Addresses
from api.amending_schemas import AmendmentResponse
from api.job_schemas import (
    ErrorResponse,
    ExtensionResponse,
    JobResponse,
    Progress,
    ProvenanceResponse,
    RemovalResponse,
    ResultResponse,
    TransitionResponse,
)
from workflows.callbacks import receivers
from workflows.chain import may_be_retried, may_have_successor
from workflows.messages import ChainState, ImageJobInput, JobStatus, JobView
from workflows.state_machine import JobEvent, JobState, allowed_events

# What of a job's input is told elsewhere, or to nobody.
_NOT_ASKED = {
    *("type", "tenant", "fairness_weight", "endpoint_events", "links_base"),
    *("predecessor_id", "removal", "retry_of", "fingerprint"),
}


def present_job(view: JobView, addresses: Addresses) -> JobResponse:
    """The public shape of a job."""
    status, request = view.status, view.request
    return JobResponse(
        id=view.id,
        type=request.type if request else "TEXT_TO_IMAGE",
        state=view.state,
        done=view.state.is_terminal,
        pending_request=status.pending_request,
        waiting_for=view.waiting_for,
        progress=present_progress(status),
        attempt=status.attempt,
        max_attempts=request.max_attempts if request else 0,
        worker=status.worker,
        priority=view.priority,
        timeout_seconds=view.timeout_seconds,
        tenant=view.tenant,
        created_at=view.created_at,
        started_at=status.started_at,
        updated_at=view.updated_at,
        finished_at=status.finished_at,
        deadline_at=status.deadline_at,
        request=_present_request(request) if request else None,
        result=_present_result(view.id, status, addresses),
        error=ErrorResponse(**status.error.model_dump()) if status.error else None,
        predecessor_id=request.predecessor_id if request else None,
        successor_id=status.successor_id,
        retry_of=request.retry_of if request else None,
        chain=view.chain,
        extensions=[ExtensionResponse(**e.model_dump()) for e in status.extensions],
        amendments=[AmendmentResponse(**a.model_dump()) for a in status.amendments],
        transitions=[TransitionResponse(**t.model_dump()) for t in view.transitions],
        allowed_events=list(allowed_events(view.state)),
        links=_links(view, addresses),
    )


def present_progress(status: JobStatus) -> Progress | None:
    """The public shape of a job's progress, once there is any."""
    return Progress(**status.progress.model_dump()) if status.progress else None


def _present_request(request: ImageJobInput) -> dict[str, Any]:
    """What was asked, in the words of `POST /v1/jobs`."""
    asked = request.model_dump(mode="json", exclude=_NOT_ASKED)
    parameters: dict[str, Any] = asked.pop("parameters")
    return parameters | asked


def _present_result(job_id: str, status: JobStatus, addresses: Addresses) -> ResultResponse | None:
    if status.result is None:
        return None
    result = status.result
    return ResultResponse(
        image_url=addresses.image(job_id),
        seed=result.seed,
        has_label=result.label is not None,
        removal=RemovalResponse(**result.removed.model_dump()) if result.removed else None,
        provenance=ProvenanceResponse(**result.provenance.model_dump())
        if result.provenance
        else None,
        **result.artifact.model_dump(exclude={"key"}),
    )


def _links(view: JobView, addresses: Addresses) -> dict[str, str]:
    own = addresses.job(view.id)
    allowed, wish = allowed_events(view.state), view.status.pending_request
    possible = {
        "image": view.state is JobState.SUCCESS,
        "callbacks": bool(receivers(view.request)),
        "retry": may_be_retried(view),
        "watermark-removal": may_have_successor(view) and view.chain is not ChainState.FINALIZED,
        "cancel": JobEvent.CANCEL in allowed,
        "pause": (JobEvent.PAUSE in allowed or wish == "resume") and wish != "cancel",
        "resume": (JobEvent.RESUME in allowed or wish == "pause") and wish != "cancel",
    }
    return {"self": own} | {name: f"{own}/{name}" for name, is_so in possible.items() if is_so}
