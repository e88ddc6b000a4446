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

from activities.engines.base import Capabilities
from activities.errors import ErrorKind
from activities.models import GenerationParameters, Phase, RemovalParameters, RemovedLabel
from activities.refs import MAX_STEPS
from activities.values import Model

_LENGTHS = struct.Struct(">II")
MEBIBYTE = 1024 * 1024
# The largest picture that may be asked for has 12 MB of pixels: this is an image, or a mistake.
MAX_IMAGE = 64 * MEBIBYTE
# Far more than the latents of any model. Each slot may have one in the worker's memory, which is
# the memory of all its jobs.
MAX_CHECKPOINT = 256 * MEBIBYTE
# A report is small. Text that somebody printed into the pipe reads as a length far beyond this.
MAX_REPORT_HEADER = 1024 * 1024

# Anything else is the engine's fault, and is told as such before it is taken for progress.
_Step = Annotated[int, Field(ge=0, le=MAX_STEPS)]


class RunCommand(Model):
    """Begin a job; the payload is its checkpoint, if there is one."""

    kind: Literal["run"] = "run"
    job_id: str
    parameters: GenerationParameters | RemovalParameters
    has_checkpoint: bool
    scratch: str
    # The line which begins the job's own part of the child's output. It is random and holds once,
    # so that nothing which an engine prints is taken for it.
    log_mark: str


class StopCommand(Model):
    """End the job at the next step."""

    kind: Literal["stop"] = "stop"
    checkpoint: bool


class ReadyReport(Model):
    """The engine is loaded; what it can do, if it says so as it should."""

    kind: Literal["ready"] = "ready"
    capabilities: Capabilities | None = None


class StepReport(Model):
    """A step is finished."""

    kind: Literal["step"] = "step"
    step: _Step
    total_steps: _Step


class PhaseReport(Model):
    """Something else than a step began."""

    kind: Literal["phase"] = "phase"
    phase: Phase


class CheckpointReport(Model):
    """The payload is a checkpoint taken after `step`."""

    kind: Literal["checkpoint"] = "checkpoint"
    step: _Step


class StartedOverReport(Model):
    """The checkpoint could not be used."""

    kind: Literal["started_over"] = "started_over"
    reason: str


class LabelRemovedReport(Model):
    """A visible label was removed from the image that follows."""

    kind: Literal["label_removed"] = "label_removed"
    removed: RemovedLabel


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
    | LabelRemovedReport
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
    | LabelRemovedReport
    | ImageReport
    | EndReport
    | FailureEvent
] = TypeAdapter(Report)


class OversizeError(Exception):
    """A payload is larger than its kind may be; the message is for a user."""


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


async def read_report(stream: asyncio.StreamReader) -> tuple[Model, bytes]:
    """Read one report and its payload, which is refused before any of it is read.

    Raises `asyncio.IncompleteReadError` at the end of the stream, `OversizeError` where the
    payload is too large, and `ValueError` where there can't be a report.
    """
    header_size, payload_size = _LENGTHS.unpack(await stream.readexactly(_LENGTHS.size))
    if header_size > MAX_REPORT_HEADER:
        raise ValueError(f"a header of {header_size} bytes")
    report = REPORTS.validate_json(await stream.readexactly(header_size))
    _check_size(report, payload_size)
    return report, await stream.readexactly(payload_size)


def _check_size(report: Model, payload_size: int) -> None:
    match report:
        case ImageReport():
            what, limit = "image", MAX_IMAGE
        case CheckpointReport():
            what, limit = "checkpoint", MAX_CHECKPOINT
        case _ if payload_size:
            raise ValueError(f"{payload_size} bytes with a report that has none")
        case _:
            return
    if payload_size > limit:
        raise OversizeError(f"the engine's {what} is larger than {limit // MEBIBYTE} MiB")
