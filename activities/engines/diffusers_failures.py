"""What goes wrong inside a pipeline, told as the project's own errors."""

import contextlib
import logging
from collections.abc import Iterator

import torch

from activities.errors import ErrorKind, WorkError

# Not each allocator of torch has an exception of its own: these are the CPU's words and Apple's.
_OUT_OF_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory")

logger = logging.getLogger("darkroom.engine.diffusers")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch says, in whichever way, that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and any(word in text for word in _OUT_OF_MEMORY_WORDS)


@contextlib.contextmanager
def memory_is_told() -> Iterator[None]:
    """Raise `WorkError(OUT_OF_MEMORY)` in place of what torch raises when memory runs out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        logger.exception("out of memory")
        message = "The model ran out of memory; a smaller image may fit."
    # Outside the handler: its error holds the frames, and those the tensors, that must go first.
    else:
        return
    torch.cuda.empty_cache()
    raise WorkError(ErrorKind.OUT_OF_MEMORY, message)


def not_a_number() -> WorkError:
    """The model's arithmetic has broken down; what it draws from there on is black."""
    return WorkError(
        ErrorKind.ENGINE_CRASHED,
        "the model produced NaN; another number type (DARKROOM_DIFFUSERS_DTYPE) may help",
    )
