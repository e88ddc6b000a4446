"""Workers as their heartbeats tell, without a server."""

from datetime import datetime, timedelta

import pytest
from temporalio.api.enums.v1 import WorkerStatus
from temporalio.api.worker.v1 import WorkerHeartbeat, WorkerHostInfo, WorkerSlotsInfo

from tests.workflows.pure import START
from workflows.fleet import Part, Service, WorkerState, serving, workers_of

RUNNING = WorkerStatus.WORKER_STATUS_RUNNING
SHUTTING_DOWN = WorkerStatus.WORKER_STATUS_SHUTTING_DOWN


def beat(
    queue: str,
    *,
    identity: str = "1@host",
    status: "WorkerStatus.ValueType" = RUNNING,
    at: datetime = START,
) -> WorkerHeartbeat:
    said = WorkerHeartbeat(
        worker_identity=identity,
        host_info=WorkerHostInfo(host_name="host", process_id=identity.partition("@")[0]),
        task_queue=queue,
        status=status,
        activity_task_slots_info=WorkerSlotsInfo(current_used_slots=1, current_available_slots=3),
        workflow_task_slots_info=WorkerSlotsInfo(current_used_slots=2, current_available_slots=98),
    )
    said.heartbeat_time.FromDatetime(at)
    said.start_time.FromDatetime(START - timedelta(hours=1))
    return said


def test_process_serves_all_of_its_queues() -> None:
    queues = ("darkroom", "darkroom-postprocess", "darkroom-generate-procedural")
    [worker] = workers_of(map(beat, queues), START)
    assert (worker.identity, worker.host, worker.process_id) == ("1@host", "host", "1")
    assert worker.state is WorkerState.RUNNING
    assert [(s.part, s.engine, s.slots_used, s.slots_free) for s in worker.serves] == [
        (Part.WORKFLOWS, None, 2, 98),
        (Part.GENERATE, "procedural", 1, 3),
        (Part.POSTPROCESS, None, 1, 3),
    ]


def test_processes_are_told_apart() -> None:
    beats = [beat("darkroom", identity=identity) for identity in ("2@host", "1@host")]
    assert [worker.identity for worker in workers_of(beats, START)] == ["1@host", "2@host"]


@pytest.mark.parametrize(
    ("age", "status", "state"),
    [
        (0, RUNNING, WorkerState.RUNNING),
        (11, RUNNING, WorkerState.RUNNING),
        (12, RUNNING, WorkerState.LOST),
        (500, RUNNING, WorkerState.LOST),
        (0, SHUTTING_DOWN, WorkerState.SHUTTING_DOWN),
        (60, SHUTTING_DOWN, WorkerState.LOST),
    ],
)
def test_silence_makes_a_worker_lost(
    age: float, status: "WorkerStatus.ValueType", state: WorkerState
) -> None:
    said = beat("darkroom", status=status, at=START - timedelta(seconds=age))
    [worker] = workers_of([said], START)
    assert worker.state is state
    assert worker.is_alive is (state is WorkerState.RUNNING)


@pytest.mark.parametrize(
    "said",
    [
        beat("darkroom", at=START - timedelta(minutes=10)),
        beat("darkroom", status=WorkerStatus.WORKER_STATUS_SHUTDOWN),
        beat("somebody-elses"),
        beat("darkroom-generate-"),
    ],
)
def test_the_gone_and_the_strangers_are_left_out(said: WorkerHeartbeat) -> None:
    assert workers_of([said], START) == ()


def test_only_the_living_serve_an_engine() -> None:
    lost = START - timedelta(seconds=30)
    queue = "darkroom-generate-a"
    beats = [
        beat(queue),
        beat("darkroom-generate-b", identity="3@host"),
        beat(queue, identity="2@host", at=lost),
    ]
    service = Service(part=Part.GENERATE, engine="a", task_queue=queue, slots_used=1, slots_free=3)
    assert serving(workers_of(beats, START), "a") == [service]
