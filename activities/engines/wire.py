"""What a worker and its engine's child process say to each other, and how it is framed.

A frame is two big-endian uint32 lengths, a JSON object, and a payload of bytes. Commands go down
the child's standard input, events come up a pipe of their own; standard output stays free for
whatever a library prints.
"""

import asyncio
import struct
from dataclasses import dataclass
from typing import Annotated, BinaryIO, Literal

from pydantic import Field, TypeAdapter

from activities.errors import ErrorKind
from activities.models import GenerationParameters, Model, Phase

_LENGTHS = struct.Struct(">II")
MAX_PAYLOAD = 512 * 1024 * 1024
# A report is small. Text that somebody printed into the pipe reads as a length far beyond this.
MAX_REPORT_HEADER = 1024 * 1024
# Begins a line of the child's output which says what job the following lines belong to.
LOG_MARK = b"\x1edarkroom-job "


class RunCommand(Model):
    """Begin a job; the payload is its checkpoint, if there is one."""

    kind: Literal["run"] = "run"
    job_id: str
    parameters: GenerationParameters
    has_checkpoint: bool
    scratch: str


class StopCommand(Model):
    """End the job at the next step."""

    kind: Literal["stop"] = "stop"
    checkpoint: bool


class ReadyReport(Model):
    """The engine is loaded."""

    kind: Literal["ready"] = "ready"


class StepReport(Model):
    """A step is finished."""

    kind: Literal["step"] = "step"
    step: int
    total_steps: int


class PhaseReport(Model):
    """Something else than a step began."""

    kind: Literal["phase"] = "phase"
    phase: Phase


class CheckpointReport(Model):
    """The payload is a checkpoint taken after `step`."""

    kind: Literal["checkpoint"] = "checkpoint"
    step: int


class StartedOverReport(Model):
    """The checkpoint could not be used."""

    kind: Literal["started_over"] = "started_over"
    reason: str


class ImageReport(Model):
    """The payload is the finished image."""

    kind: Literal["image"] = "image"
    media_type: str


class EndReport(Model):
    """The job is over in the child, after an image or a stop."""

    kind: Literal["end"] = "end"


class FailureEvent(Model):
    """The job failed; `fatal` means that the child ends itself now."""

    kind: Literal["failed"] = "failed"
    error: ErrorKind
    message: str
    retry_after_seconds: float | None = None
    fatal: bool = False


Command = Annotated[RunCommand | StopCommand, Field(discriminator="kind")]
Report = Annotated[
    ReadyReport
    | StepReport
    | PhaseReport
    | CheckpointReport
    | StartedOverReport
    | ImageReport
    | EndReport
    | FailureEvent,
    Field(discriminator="kind"),
]
COMMANDS: TypeAdapter[RunCommand | StopCommand] = TypeAdapter(Command)
REPORTS: TypeAdapter[
    ReadyReport
    | StepReport
    | PhaseReport
    | CheckpointReport
    | StartedOverReport
    | ImageReport
    | EndReport
    | FailureEvent
] = TypeAdapter(Report)


@dataclass(frozen=True)
class Frame:
    """One message as bytes."""

    header: bytes
    payload: bytes


def encode(message: Model, payload: bytes = b"") -> bytes:
    """Frame one message."""
    header = message.model_dump_json().encode()
    return _LENGTHS.pack(len(header), len(payload)) + header + payload


def read_frame(stream: BinaryIO) -> Frame | None:
    """Read one frame, blocking; None at the end of the stream."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header_size, payload_size = _LENGTHS.unpack(lengths)
    header, payload = stream.read(header_size), stream.read(payload_size)
    is_whole = len(header) == header_size and len(payload) == payload_size
    return Frame(header, payload) if is_whole else None


async def read_frame_async(stream: asyncio.StreamReader) -> Frame:
    """Read one frame; raises `asyncio.IncompleteReadError` at the end of the stream.

    Raises `ValueError` where there can't be a frame.
    """
    header_size, payload_size = _LENGTHS.unpack(await stream.readexactly(_LENGTHS.size))
    if header_size > MAX_REPORT_HEADER or payload_size > MAX_PAYLOAD:
        raise ValueError(f"a frame of {header_size} and {payload_size} bytes")
    header = await stream.readexactly(header_size)
    return Frame(header, await stream.readexactly(payload_size))
