"""The archiver, with the real server and a real store."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import ScheduleOverlapPolicy
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker

from activities.archive import ArchiveActivities, ArchiveInput, archive_key
from activities.artifacts import LocalArtifactStore, put_checkpoint, put_image
from activities.errors import ErrorKind, WorkError
from activities.models import WorkInput, WorkResult
from tests.workflows.archive_visits import (
    AT_ONCE,
    NoJobs,
    NoJobsButFinal,
    OnlyTheseJobs,
    until_listed,
    visit,
)
from tests.workflows.stage import JobHandle, Stage, until
from workflows.archiving import (
    ArchiveJobsWorkflow,
    ensure_archiver,
)
from workflows.names import job_id_of
from workflows.reading import JobNotFoundError, JobReader

IMAGE = b"the image that counts"


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    """A store of this test's own."""
    return LocalArtifactStore(tmp_path)


async def succeed(stage: Stage, store: LocalArtifactStore) -> JobHandle:
    """A job that succeeded, with a checkpoint and a loser's image left in the store."""

    async def store_all(input: WorkInput) -> WorkResult:
        await put_checkpoint(store, input.job_id, 1, 5, b"a checkpoint")
        await put_image(store, input.job_id, b"a loser's image", "image/png", (64, 64))
        artifact = await put_image(store, input.job_id, IMAGE, "image/png", (64, 64))
        return WorkResult(artifact=artifact, worker="fake")

    async with stage.deciding(), stage.working(stage.work(store_all)):
        handle = await stage.start()
        await handle.result()
    await until_listed(stage.client, handle)
    return handle


async def test_a_job_that_succeeded_keeps_its_image_and_its_final_view_and_nothing_else(
    stage: Stage, store: LocalArtifactStore
) -> None:
    handle = await succeed(stage, store)
    job_id = job_id_of(handle.id) or ""
    view = await stage.view(handle)
    assert await visit(stage.client, store, [handle]) == 1
    assert view.status.result is not None
    image_key = view.status.result.artifact.key
    assert await store.list(f"jobs/{job_id}") == sorted([archive_key(job_id), image_key])
    assert await store.get(image_key) == IMAGE
    assert await store.list(f"checkpoints/{job_id}") == []
    document = json.loads(await store.get(archive_key(job_id)))
    assert json.loads(document["view"])["state"] == "SUCCESS"


async def test_each_run_is_visited_once(stage: Stage, store: LocalArtifactStore) -> None:
    handle = await succeed(stage, store)
    assert await visit(stage.client, store, [handle]) == 1
    assert await visit(stage.client, store, [handle]) == 0


async def test_a_job_is_left_alone_until_no_attempt_can_be_writing(
    stage: Stage, store: LocalArtifactStore
) -> None:
    handle = await succeed(stage, store)
    assert await visit(stage.client, store, [handle], settle=timedelta(minutes=1)) == 0
    assert await store.list(f"checkpoints/{job_id_of(handle.id)}")


async def test_a_living_job_is_never_touched(stage: Stage, store: LocalArtifactStore) -> None:
    handle = await stage.start()
    job_id = job_id_of(handle.id) or ""
    checkpoint = await put_checkpoint(store, job_id, 1, 5, b"a checkpoint")
    assert await visit(stage.client, store, [handle]) == 0
    assert await store.get(checkpoint.key) == b"a checkpoint"


async def test_a_job_that_lives_again_after_a_reset_is_left_alone(
    stage: Stage, store: LocalArtifactStore
) -> None:
    handle = await succeed(stage, store)
    execution = WorkflowExecution(workflow_id=handle.id, run_id=handle.result_run_id or "")
    await stage.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=stage.client.namespace,
            workflow_execution=execution,
            reason="again",
            workflow_task_finish_event_id=4,
            request_id=uuid4().hex,
        )
    )
    # The server tells of the reset as of a failed workflow task, which the stage would mind.
    stage.handles.remove(handle)
    assert await visit(stage.client, store, [handle]) == 0
    assert await store.list(f"checkpoints/{job_id_of(handle.id)}")
    await stage.client.get_workflow_handle(handle.id).terminate()


async def test_a_terminated_job_is_archived_as_the_failure_that_it_reads_as(
    stage: Stage, store: LocalArtifactStore
) -> None:
    handle = await stage.start()
    job_id = job_id_of(handle.id) or ""
    await put_checkpoint(store, job_id, 1, 5, b"a checkpoint")
    await handle.terminate(reason="stuck in a bad build")
    await until_listed(stage.client, handle)
    assert await visit(stage.client, store, [handle]) == 1
    view = json.loads(json.loads(await store.get(archive_key(job_id)))["view"])
    assert view["state"] == "FAILED"
    assert view["status"]["error"]["message"] == "terminated by an operator: stuck in a bad build"
    assert await store.list(f"checkpoints/{job_id}") == []


async def test_the_archive_answers_for_a_job_that_temporal_does_not_know(
    stage: Stage, store: LocalArtifactStore
) -> None:
    handle = await succeed(stage, store)
    await visit(stage.client, store, [handle])
    # Temporal takes half a minute to forget a closed run: another id is as good as forgotten.
    document = await store.get(archive_key(job_id_of(handle.id) or ""))
    forgotten = uuid4().hex
    await store.put(archive_key(forgotten), document)
    with pytest.raises(JobNotFoundError):
        await stage.reader.read(forgotten)
    assert await JobReader(stage.client, store).read(forgotten) == await stage.view(handle)


class FailingStore(LocalArtifactStore):
    """Fails at the n-th removal, as a store does that goes out of reach."""

    def __init__(self, root: Path, removals: int) -> None:
        super().__init__(root)
        self._removals = removals

    async def delete(self, key: str) -> None:
        if self._removals == 0:
            raise WorkError(ErrorKind.STORAGE, "out of reach")
        self._removals -= 1
        await super().delete(key)


@pytest.mark.parametrize("removals", [0, 1])
async def test_a_job_that_could_not_be_archived_is_tried_again_by_the_next_visit(
    stage: Stage, store: LocalArtifactStore, tmp_path: Path, removals: int
) -> None:
    handle = await succeed(stage, store)
    job_id = job_id_of(handle.id) or ""
    jobs = OnlyTheseJobs(stage.client, [handle])
    failing = ArchiveActivities(FailingStore(tmp_path, removals), jobs, AT_ONCE)
    result = await ActivityEnvironment().run(failing.archive_closed_jobs, ArchiveInput(since=None))
    assert result.archived == 0
    assert [run.job_id for run in result.failed] == [job_id]
    assert archive_key(job_id) not in await store.list(f"jobs/{job_id}")
    # The next window begins long after the job's end: only the list still knows of it.
    later = ArchiveInput(since=datetime.now(UTC) + timedelta(hours=3), failed=result.failed)
    again = ArchiveActivities(store, NoJobsButFinal(jobs), AT_ONCE)
    assert (await ActivityEnvironment().run(again.archive_closed_jobs, later)).archived == 1
    assert len(await store.list(f"jobs/{job_id}")) == 2


async def test_one_job_that_can_not_be_archived_stands_in_nobody_s_way(
    stage: Stage, store: LocalArtifactStore, tmp_path: Path
) -> None:
    handles = [await succeed(stage, store) for _ in range(3)]
    blocked = job_id_of(handles[1].id) or ""
    (tmp_path / "checkpoints" / blocked / "2-9").mkdir()
    assert await visit(stage.client, store, handles) == 2


async def test_a_damaged_document_is_written_anew(
    stage: Stage, store: LocalArtifactStore, tmp_path: Path
) -> None:
    handle = await succeed(stage, store)
    job_id = job_id_of(handle.id) or ""
    await visit(stage.client, store, [handle])
    (tmp_path / archive_key(job_id)).write_bytes(bytes(100))
    assert await visit(stage.client, store, [handle]) == 1
    assert json.loads(await store.get(archive_key(job_id)))["run_id"]


async def test_jobs_that_close_after_the_clock_was_set_back_are_archived(
    stage: Stage, store: LocalArtifactStore
) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    handle = await succeed(stage, store)
    assert await visit(stage.client, store, [handle], since=ahead) == 1


async def test_the_schedule_visits_from_where_the_last_visit_ended(
    stage: Stage, store: LocalArtifactStore
) -> None:
    jobs = NoJobs()
    activities = ArchiveActivities(store, jobs, AT_ONCE)
    # A schedule of its own: a worker of another test has the one with the usual name.
    name = f"archiver-{uuid4().hex}"
    for hours in (2, 1):
        await ensure_archiver(
            stage.client, timedelta(hours=hours), task_queue=stage.task_queue, schedule_id=name
        )
    schedule = stage.client.get_schedule_handle(name)
    try:
        [interval] = (await schedule.describe()).schedule.spec.intervals
        assert interval.every == timedelta(hours=1)
        async with Worker(
            stage.client,
            task_queue=stage.task_queue,
            workflows=[ArchiveJobsWorkflow],
            activities=[activities.archive_closed_jobs],
        ):
            for visits in (1, 2):
                # One after the other: the second is to begin where the first has ended.
                await schedule.trigger(overlap=ScheduleOverlapPolicy.BUFFER_ONE)

                async def is_visited(wanted: int = visits) -> bool:
                    return len(jobs.asked) == wanted

                await until(is_visited)
    finally:
        await schedule.delete()
    first, second = jobs.asked
    assert first == datetime.fromtimestamp(0, UTC)
    assert datetime.now(UTC) - second < timedelta(minutes=5)
