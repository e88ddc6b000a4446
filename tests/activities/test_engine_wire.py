"""What the worker reads from an engine's process, and what it refuses before it has read it."""

import asyncio
import struct

import pytest

from activities.engines import wire
from activities.values import Model


async def read(data: bytes, claimed: int | None = None) -> tuple[Model, bytes]:
    """Read a report from a stream that has these bytes, and nothing more for now."""
    stream = asyncio.StreamReader()
    if claimed is not None:
        [header] = struct.unpack(">I", data[:4])
        data = struct.pack(">II", header, claimed) + data[8:]
    stream.feed_data(data)
    async with asyncio.timeout(5):
        return await wire.read_report(stream)


IMAGE = wire.ImageReport(media_type="image/png")
CHECKPOINT = wire.CheckpointReport(step=3)


async def test_a_report_is_read_as_it_was_written() -> None:
    assert await read(wire.encode(IMAGE, b"pixels")) == (IMAGE, b"pixels")
    assert await read(wire.encode(wire.EndReport())) == (wire.EndReport(), b"")


@pytest.mark.parametrize(
    ("report", "size", "message"),
    [
        (IMAGE, 64 * 2**20 + 1, "the engine's image is larger than 64 MiB"),
        (CHECKPOINT, 256 * 2**20 + 1, "the engine's checkpoint is larger than 256 MiB"),
        (IMAGE, 2**32 - 1, "the engine's image is larger than 64 MiB"),
    ],
)
async def test_a_payload_that_is_too_large_is_refused_unread(
    report: Model, size: int, message: str
) -> None:
    with pytest.raises(wire.OversizeError) as refusal:
        await read(wire.encode(report), claimed=size)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    "report",
    [
        b'{"kind": "step", "step": -1, "total_steps": 3}',
        b'{"kind": "step", "step": 1000001, "total_steps": 3}',
        b'{"kind": "step", "step": 1, "total_steps": 1000001}',
        b'{"kind": "checkpoint", "step": -1}',
        b'{"kind": "checkpoint", "step": 1000001}',
    ],
)
async def test_a_step_that_no_attempt_can_report_is_no_report(report: bytes) -> None:
    with pytest.raises(ValueError, match="step"):
        await read(struct.pack(">II", len(report), 0) + report)


async def test_a_payload_with_a_report_that_has_none_is_no_report() -> None:
    with pytest.raises(ValueError, match="has none"):
        await read(wire.encode(wire.EndReport()), claimed=1)
