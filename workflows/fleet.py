"""Who is there to work: the worker processes, as their heartbeats tell, and what they serve."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import WorkerStatus as Reported
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.client import Client

from activities.values import Model
from workflows.names import POSTPROCESS_TASK_QUEUE, WORKFLOW_TASK_QUEUE, generate_task_queue
from workflows.presence import HEARTBEAT_AGE, worker_heartbeats

# Temporal remembers the dead for a day.
_FORGOTTEN_AFTER = timedelta(minutes=10)


class WorkerState(StrEnum):
    """How a worker is. A lost one has not been heard of for three heartbeats."""

    RUNNING = "RUNNING"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    LOST = "LOST"


class Part(StrEnum):
    """What a worker serves, as in `worker.py --serve`."""

    WORKFLOWS = "workflows"
    GENERATE = "generate"
    POSTPROCESS = "postprocess"


class Service(Model):
    """One task queue that a worker serves; the slots are those of what it does there."""

    part: Part
    engine: str | None
    task_queue: str
    slots_used: int
    slots_free: int


class FleetWorker(Model):
    """One worker process."""

    identity: str
    host: str
    process_id: str
    state: WorkerState
    started_at: datetime
    last_heartbeat_at: datetime
    host_cpu: float
    host_memory: float
    serves: tuple[Service, ...]

    @property
    def is_alive(self) -> bool:
        """Whether it may be given work."""
        return self.state is WorkerState.RUNNING


async def read_fleet(client: Client) -> tuple[FleetWorker, ...]:
    """Every worker process that was heard of within the last minutes, by identity."""
    return workers_of(await worker_heartbeats(client), datetime.now(UTC))


def workers_of(beats: Iterable[WorkerHeartbeat], now: datetime) -> tuple[FleetWorker, ...]:
    """The processes that these heartbeats are of: a process has a heartbeat for each queue."""
    processes: dict[tuple[str, str, str], list[WorkerHeartbeat]] = {}
    for beat in beats:
        is_known = _service(beat) is not None and beat.status != Reported.WORKER_STATUS_SHUTDOWN
        if is_known and now - _time(beat.heartbeat_time) < _FORGOTTEN_AFTER:
            host = beat.host_info
            key = (beat.worker_identity, host.host_name, host.process_id)
            processes.setdefault(key, []).append(beat)
    return tuple(_worker(processes[key], now) for key in sorted(processes))


def serving(workers: Iterable[FleetWorker], engine: str) -> list[Service]:
    """What the living workers have for an engine."""
    services = (service for worker in workers if worker.is_alive for service in worker.serves)
    return [service for service in services if service.engine == engine]


def _worker(beats: list[WorkerHeartbeat], now: datetime) -> FleetWorker:
    newest = max(beats, key=lambda beat: _time(beat.heartbeat_time))
    services = filter(None, map(_service, beats))
    return FleetWorker(
        identity=newest.worker_identity,
        host=newest.host_info.host_name,
        process_id=newest.host_info.process_id,
        state=_state(newest, now),
        started_at=min(_time(beat.start_time) for beat in beats),
        last_heartbeat_at=_time(newest.heartbeat_time),
        host_cpu=newest.host_info.current_host_cpu_usage,
        host_memory=newest.host_info.current_host_mem_usage,
        serves=tuple(sorted(services, key=lambda service: service.task_queue)),
    )


def _state(beat: WorkerHeartbeat, now: datetime) -> WorkerState:
    if now - _time(beat.heartbeat_time) >= HEARTBEAT_AGE:
        return WorkerState.LOST
    is_running = beat.status == Reported.WORKER_STATUS_RUNNING
    return WorkerState.RUNNING if is_running else WorkerState.SHUTTING_DOWN


def _service(beat: WorkerHeartbeat) -> Service | None:
    """None for a worker of something else that shares our namespace."""
    queue, engine = beat.task_queue, _engine_of(beat.task_queue)
    parts = {WORKFLOW_TASK_QUEUE: Part.WORKFLOWS, POSTPROCESS_TASK_QUEUE: Part.POSTPROCESS}
    part = Part.GENERATE if engine else parts.get(queue)
    if part is None:
        return None
    decides = part is Part.WORKFLOWS
    slots = beat.workflow_task_slots_info if decides else beat.activity_task_slots_info
    return Service(
        part=part,
        engine=engine,
        task_queue=queue,
        slots_used=slots.current_used_slots,
        slots_free=slots.current_available_slots,
    )


def _engine_of(task_queue: str) -> str | None:
    """The inverse of `generate_task_queue`; None where it is another queue."""
    prefix = generate_task_queue("")
    return task_queue.removeprefix(prefix) if task_queue.startswith(prefix) else None


def _time(timestamp: Timestamp) -> datetime:
    return timestamp.ToDatetime(tzinfo=UTC)
