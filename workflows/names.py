"""The names by which jobs are found: workflow, queues, signals, ids, and who did what."""

import re

IMAGE_JOB_WORKFLOW = "ImageJobWorkflow"
WORKFLOW_TASK_QUEUE = "darkroom"
POSTPROCESS_TASK_QUEUE = "darkroom-postprocess"

SIGNAL_CANCEL = "cancel"
SIGNAL_PAUSE = "pause"
SIGNAL_RESUME = "resume"
SIGNAL_AMEND = "amend"
UPDATE_CLAIM = "claim"
QUERY_VIEW = "view"

# Who a transition's `source` names, apart from `api:<tenant>` and `worker:<identity>`.
OPERATOR = "operator"
WATCHDOG = "watchdog"

JOB_ID_PATTERN = r"[a-z0-9][a-z0-9-]{0,99}"
_WORKFLOW_ID = re.compile(f"job-({JOB_ID_PATTERN})")


def workflow_id_for(job_id: str) -> str:
    """The one place that knows how a job's id becomes a workflow's."""
    return f"job-{job_id}"


def job_id_of(workflow_id: str) -> str | None:
    """The inverse of `workflow_id_for`; None where the id is not a job's."""
    match = _WORKFLOW_ID.fullmatch(workflow_id)
    return match[1] if match else None


def generate_task_queue(engine: str) -> str:
    """Where workers that serve this engine look for work."""
    return f"darkroom-generate-{engine}"


def attempt_activity_id(dispatch: int) -> str:
    """The id of the activity of one dispatch, in history and for `temporal activity`."""
    return f"attempt-{dispatch}"


def worker_source(worker: str) -> str:
    """How a transition's `source` names a worker."""
    return f"worker:{worker}"
