"""What clients get of the service as a whole."""

from pydantic import BaseModel, Field

from api.fields import UtcTime
from workflows.fleet import Part, WorkerState
from workflows.messages import JobType
from workflows.state_machine import JobState


class BacklogResponse(BaseModel):
    """Attempts that wait for a free worker, of all tenants, about."""

    waiting: int = Field(description="In all")
    by_priority: dict[str, int] = Field(description="By priority, 9 first")


class EngineBacklogResponse(BacklogResponse):
    """What waits for one engine."""

    engine: str = Field(description="The engine's name")


class PercentilesResponse(BaseModel):
    """By nearest rank, in seconds; null if there is no such job."""

    p50: float | None = Field(description="Half of the jobs took no longer")
    p95: float | None = Field(description="95 of 100 took no longer")
    p99: float | None = Field(description="99 of 100 took no longer")


class WindowResponse(BaseModel):
    """Which jobs the percentiles are of."""

    seconds: int = Field(description="Jobs that finished within this time")
    max_jobs: int = Field(description="… and of these the last so many, in whatever state")
    jobs: int = Field(description="How many there were")


class SlowJobResponse(BaseModel):
    """A job that has been in PROCESSING for long."""

    id: str = Field(description="The job's id")
    type: JobType = Field(description="What kind of work it is")
    engine: str | None = Field(description="Its engine")
    worker: str | None = Field(description="Who works on it")
    attempt: int = Field(description="The running attempt, from 1")
    processing_since: UtcTime = Field(description="When the attempt began")
    deadline_at: UtcTime | None = Field(description="When its processing time runs out")


class StatsResponse(BaseModel):
    """Figures of your jobs, as Temporal knows them: those it has forgotten are not counted."""

    at: UtcTime = Field(
        description="When they were taken: some seconds ago, or longer where there are many jobs"
    )
    states: dict[JobState, int] = Field(
        description="How many jobs are in each state; each run of a removal that was tried again "
        "counts"
    )
    window: WindowResponse = Field(description="Which jobs the percentiles are of")
    duration_seconds: PercentilesResponse = Field(description="From accepted to finished")
    waiting_seconds: PercentilesResponse = Field(
        description="From accepted, or from `start_at`, to the first attempt"
    )
    backlog: list[EngineBacklogResponse] = Field(description="What waits, by engine")
    removals_backlog: BacklogResponse = Field(description="What waits for a label to be removed")
    slowest: list[SlowJobResponse] = Field(
        description="The ten that have been in PROCESSING for longest"
    )


class ServiceResponse(BaseModel):
    """One thing that a worker serves."""

    part: Part = Field(description="As in `worker.py --serve`")
    engine: str | None = Field(description="The engine, for `generate`")
    task_queue: str = Field(description="Where it looks for work")
    slots_used: int = Field(
        description="What it is doing at once; for `workflows`: decisions, not jobs"
    )
    slots_free: int = Field(description="What it could do besides")


class WorkerResponse(BaseModel):
    """One worker process."""

    identity: str = Field(description="As in a job's `worker`", examples=["31210@host"])
    host: str = Field(description="The machine")
    process_id: str = Field(description="On that machine")
    status: WorkerState = Field(
        description="`LOST`: not heard of for three heartbeats; left out after ten minutes"
    )
    started_at: UtcTime = Field(description="When it began to serve")
    last_heartbeat_at: UtcTime = Field(description="When it was last heard of, by its own clock")
    host_cpu: float = Field(description="How busy the machine's processors are, 0 to 1")
    host_memory: float = Field(description="How full its memory is, 0 to 1")
    serves: list[ServiceResponse] = Field(description="What it serves")


class WorkersResponse(BaseModel):
    """The worker processes."""

    workers: list[WorkerResponse] = Field(description="By identity")


class CapabilitiesResponse(BaseModel):
    """What an engine can do; null where nobody has told."""

    seed: bool | None = Field(description="Same seed and parameters, same bytes")
    progress: bool | None = Field(description="Tells of its steps")
    checkpoint: bool | None = Field(description="Goes on where it was interrupted")
    targeted_cancel: bool | None = Field(description="One job can be stopped, others go on")
    reconcile: bool | None = Field(description="Can be asked about work after a crash")


class EngineResponse(BaseModel):
    """One of the configured engines."""

    name: str = Field(description="For `engine` in a request")
    is_default: bool = Field(description="Whether it is used where a request names none")
    is_served: bool = Field(description="Whether a worker serves it now")
    workers: int = Field(description="How many living workers have sent a heartbeat for it")
    slots_used: int = Field(description="Jobs they are working on")
    slots_free: int = Field(description="Jobs they could work on besides")
    capabilities: CapabilitiesResponse = Field(
        description="What it can do, as the worker that started last has declared it"
    )
    backlog: BacklogResponse = Field(description="What waits for it")


class EnginesResponse(BaseModel):
    """The configured engines."""

    engines: list[EngineResponse] = Field(description="The default one first")
