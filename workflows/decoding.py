"""Reading what somebody has said to Temporal, who may have been anybody, in any words."""

from collections.abc import Sequence
from typing import TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter

T = TypeVar("T")


async def decoded(converter: DataConverter, payloads: Sequence[Payload], kind: type[T]) -> T | None:
    """The one thing that was said; None if nothing was, or not by this build's code.

    Anybody can start a workflow, write to a memo and complete an activity.
    """
    if not payloads:
        return None
    try:
        [said] = await converter.decode(list(payloads), [kind])
    except Exception:  # noqa: BLE001 - converters raise what they like
        return None
    return said if isinstance(said, kind) else None
