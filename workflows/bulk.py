"""BulkWorkflow, nothing else."""

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from workflows.bulk_messages import (
        BULK_WORKFLOW,
        CARRY_OUT_BULK,
        PROGRESS_KEY,
        BulkOrder,
        BulkProgress,
        CarryOutInput,
        bulk_id_of,
    )
    from workflows.options import (
        BULK_HEARTBEAT_TIMEOUT,
        BULK_RETRY,
        BULK_TIMEOUT,
    )


@workflow.defn(name=BULK_WORKFLOW)
class BulkWorkflow:
    """The life of one bulk: an order for all jobs that fit it when it was accepted.

    One activity asks the jobs, however many they are, and is tried for ever. The start of this run
    is the cut-off: by the same clock as the start of each job, and after all that were accepted
    before it.
    """

    @workflow.run
    async def run(self, order: BulkOrder) -> BulkProgress:
        """Carry the order out, and leave what came of it where a reader needs no worker."""
        info = workflow.info()
        told = await workflow.execute_activity(
            CARRY_OUT_BULK,
            CarryOutInput(
                bulk_id=bulk_id_of(info.workflow_id),
                order=order,
                cutoff_at=info.workflow_start_time,
            ),
            # Undecoded: `temporal activity complete` can put anything there.
            result_type=RawValue,
            start_to_close_timeout=BULK_TIMEOUT,
            heartbeat_timeout=BULK_HEARTBEAT_TIMEOUT,
            retry_policy=BULK_RETRY,
        )
        progress = _read(told)
        workflow.upsert_memo({PROGRESS_KEY: progress})
        return progress


def _read(told: RawValue) -> BulkProgress:
    """What the activity returned; else the run has to fail, and not its task, for ever."""
    try:
        read: object = workflow.payload_converter().from_payload(told.payload, BulkProgress)
        return BulkProgress.model_validate(read)
    # Converters raise what they like.
    except Exception as error:
        message = "what came of the bulk could not be read"
        raise ApplicationError(message, non_retryable=True) from error
