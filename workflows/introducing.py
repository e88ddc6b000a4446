"""What a job's workflow tells of it first."""

from temporalio import workflow

from workflows.job_record import JobRecord, memo_corrections
from workflows.search_attributes import initial_search_attributes


def introduce(record: JobRecord) -> None:
    """Make a job that was started by hand as readable as one that the API started."""
    # Undecoded: what nobody can decode must not wedge the job.
    memo, request = workflow.info().raw_memo, record.request
    corrections = memo_corrections(request, memo, workflow.payload_converter())
    if corrections:
        workflow.upsert_memo(corrections)
    if request is None:
        return
    record.update(startable_at=request.start_at)
    if corrections:
        pairs = initial_search_attributes(request, record.created_at)
        workflow.upsert_search_attributes([pair.key.value_set(pair.value) for pair in pairs])
