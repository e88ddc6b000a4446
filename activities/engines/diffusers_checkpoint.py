"""A run's state as bytes, without pickle: tensors as safetensors, all else as JSON."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load, save

_SEAL_BYTES = 32
_HEADER_LENGTH_BYTES = 8


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands after `step` of `total_steps` steps.

    `latents` and `generator` (its state, on the CPU) are tensors; `scheduler` has the attributes
    that its steps have changed: numbers, words, tensors, and lists of them.
    """

    fingerprint: Mapping[str, str]
    step: int
    total_steps: int
    latents: torch.Tensor
    generator: torch.Tensor
    scheduler: Mapping[str, object]


def pack(checkpoint: Checkpoint) -> bytes:
    """The checkpoint as bytes: a seal over the rest, then safetensors with JSON metadata."""
    tensors: dict[str, torch.Tensor] = {}
    head = {
        "fingerprint": dict(checkpoint.fingerprint),
        "step": checkpoint.step,
        "total_steps": checkpoint.total_steps,
        "latents": _plain(checkpoint.latents, tensors),
        "generator": _plain(checkpoint.generator, tensors),
        "scheduler": {name: _plain(value, tensors) for name, value in checkpoint.scheduler.items()},
    }
    body: bytes = save(tensors, metadata={"head": json.dumps(head)})
    return hashlib.sha256(body).digest() + body


def unpack(sealed: bytes, device: torch.device) -> Checkpoint | None:
    """The checkpoint in these bytes, or None if one of them is not as it was written.

    What was on the model's device then is put on `device` now.
    """
    body = sealed[_SEAL_BYTES:]
    # One wrong bit would go on into the image unseen; behind the seal all is as `pack` wrote it.
    if hashlib.sha256(body).digest() != sealed[:_SEAL_BYTES] or not body:
        return None
    head, tensors = _head_of(body), load(body)
    return Checkpoint(
        head["fingerprint"],
        head["step"],
        head["total_steps"],
        _restored(head["latents"], tensors, device),
        _restored(head["generator"], tensors, device),
        {name: _restored(value, tensors, device) for name, value in head["scheduler"].items()},
    )


def _head_of(body: bytes) -> dict[str, Any]:
    """The metadata of safetensors: 8 bytes of a length, then JSON."""
    end = _HEADER_LENGTH_BYTES + int.from_bytes(body[:_HEADER_LENGTH_BYTES], "little")
    header = json.loads(body[_HEADER_LENGTH_BYTES:end])
    head: dict[str, Any] = json.loads(header["__metadata__"]["head"])
    return head


def _plain(value: object, tensors: dict[str, torch.Tensor]) -> object:
    """The value as JSON; a tensor goes to `tensors`, and its name stands in for it."""
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name, "on_cpu": value.device.type == "cpu"}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_plain(item, tensors) for item in value]}
    # Exactly these: a subclass, such as NumPy's floats, would come back as something else.
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"a checkpoint can't hold a {type(value).__name__}")


def _restored(value: Any, tensors: Mapping[str, torch.Tensor], device: torch.device) -> object:
    match value:
        case {"tensor": name, "on_cpu": on_cpu}:
            return tensors[name] if on_cpu else tensors[name].to(device)
        case {"list": items}:
            return [_restored(item, tensors, device) for item in items]
        case {"tuple": items}:
            return tuple(_restored(item, tensors, device) for item in items)
    return value
