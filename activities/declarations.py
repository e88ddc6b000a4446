"""What engines can do: declared by the workers in the artifact store, where every API reads it.

One file for each engine. Where workers of different builds declare different things, the one that
started last is believed.
"""

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from activities.artifacts import ArtifactLostError, ArtifactStore
from activities.engines.base import Capabilities, ImageEngine
from activities.errors import WorkError
from activities.values import Model

_AGAIN_SECONDS = 5.0
_NAMES = tuple(field.name for field in fields(Capabilities))

logger = logging.getLogger("darkroom.worker")


class Declared(Model):
    """`Capabilities` as they were read: None for what a file doesn't tell, or not plainly."""

    seed: bool | None = None
    progress: bool | None = None
    checkpoint: bool | None = None
    targeted_cancel: bool | None = None
    reconcile: bool | None = None


def declaration_key(engine: str) -> str:
    """Where the declaration of an engine is."""
    return f"config/engines/{engine}.json"


async def read_declaration(store: ArtifactStore, engine: str) -> Declared:
    """What is known of an engine, which may be nothing; raises `WorkError` of kind STORAGE."""
    try:
        told = json.loads(await store.get(declaration_key(engine)))
    # Nobody has declared it, or the file is damaged.
    except (ArtifactLostError, ValueError, RecursionError):
        return Declared()
    told = told if isinstance(told, dict) else {}
    return Declared(**{name: _plain(told.get(name)) for name in _NAMES})


async def declare(store: ArtifactStore, engine: str, capabilities: Capabilities) -> None:
    """Tell what an engine can do, unless that is what is told already; raises `WorkError`."""
    declared = asdict(capabilities)
    if (await read_declaration(store, engine)).model_dump() != declared:
        await store.put(declaration_key(engine), json.dumps(declared, indent=1).encode())


async def keep_declaring(
    store: ArtifactStore, engines: Iterable[ImageEngine], again_seconds: float = _AGAIN_SECONDS
) -> None:
    """Declare each engine once, as soon as it is loaded and the store takes it."""
    left = list(engines)
    while left := [engine for engine in left if not await _is_declared(store, engine)]:
        await asyncio.sleep(again_seconds)


async def _is_declared(store: ArtifactStore, engine: ImageEngine) -> bool:
    if engine.capabilities is None:
        return False
    try:
        await declare(store, engine.name, engine.capabilities)
    # Nothing but a list for readers depends on it: the worker serves all the same.
    except WorkError as error:
        logger.warning(
            "what the engine %s can do is not declared yet, trying again: %s",
            engine.name,
            error.message,
        )
        return False
    return True


def _plain(told: Any) -> bool | None:
    return told if isinstance(told, bool) else None
