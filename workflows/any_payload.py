"""Signals that count whatever they carry: an operator's bare one, and a broken one."""

import functools
from collections.abc import Callable
from typing import Any

from workflows.messages import NOTHING_SENT


def with_any_payload(handler: Callable[[Any, Any], None]) -> Callable[..., None]:
    """Let a signal count whatever it carries; the handler's parameter has to be a `RawValue`.

    The SDK drops a signal that it can't decode, and one payload more than a handler takes fails the
    workflow task. It sees the handler's own signature, so it hands over a single payload undecoded.
    """

    @functools.wraps(handler)
    def take(self: Any, *sent: Any) -> None:
        handler(self, sent[0] if sent else NOTHING_SENT)

    return take
