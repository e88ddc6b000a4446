"""Takes a mark off pixels that were never compressed with loss, as exactly as rounding allows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from activities.imaging.labels.mark import Floats, Mark

Pixels = NDArray[np.uint8]
# `fill(pixels, hidden)`: (height, width, 3) in 0…255 with the hidden pixels (height, width) made
# up from the others, which stay as they are.
Fill = Callable[[Floats, NDArray[np.bool_]], Floats]

# From this alpha on a pixel is made up: its rounding, multiplied by 1 / (1 - alpha) when the mark
# is taken off, is then worse than what the neighbourhood tells. On photographs at their native
# resolution any limit from 0.9 to 0.95 does well: what is made up is kept within that rounding.
OPAQUE = 0.93
# What a fill gets to see around the mark's box, in pixels.
_SURROUNDINGS = 24


@dataclass(frozen=True)
class Inverse:
    """An image without its mark. `exact` (height, width) is of the mark's box: true where the
    pixel was computed from what was under the mark, false where it was made up."""

    pixels: Pixels
    exact: NDArray[np.bool_]


def remove_by_inverse(pixels: Pixels, mark: Mark, fill: Fill) -> Inverse:
    """Undo the mark's blending; a copy of (height, width, 3), changed under the mark only.

    What is made up is kept within what the marked pixel allows: its rounding leaves a range of
    values, which is wide where the mark is nearly opaque and everything where it is opaque.
    """
    rows, columns, box = _window(pixels.shape, mark)
    known = pixels[rows, columns].astype(np.float32)
    hidden = np.zeros(known.shape[:2], np.bool_)
    hidden[box] = mark.alpha >= OPAQUE
    lowest, likeliest, highest = _possible(known[box], mark)
    known[box] = likeliest
    if hidden.any():
        known = fill(known, hidden)
        made_up = np.where(lowest <= highest, np.clip(known[box], lowest, highest), known[box])
        known[box] = np.where(hidden[box][..., None], made_up, likeliest)
    removed = pixels.copy()
    left, top, right, bottom = mark.box
    removed[top:bottom, left:right] = np.rint(np.clip(known[box], 0, 255)).astype(np.uint8)
    return Inverse(removed, ~hidden[box])


def _window(shape: tuple[int, ...], mark: Mark) -> tuple[slice, slice, tuple[slice, slice]]:
    """Rows and columns of the image around the mark, and the mark's box within them."""
    left, top, right, bottom = mark.box
    first_row, first_column = max(0, top - _SURROUNDINGS), max(0, left - _SURROUNDINGS)
    rows = slice(first_row, min(shape[0], bottom + _SURROUNDINGS))
    columns = slice(first_column, min(shape[1], right + _SURROUNDINGS))
    box = (
        slice(top - first_row, bottom - first_row),
        slice(left - first_column, right - first_column),
    )
    return rows, columns, box


def _possible(marked: Floats, mark: Mark) -> tuple[Floats, Floats, Floats]:
    """The lowest, likeliest and highest value under each pixel of the box, in 0…255.

    The lowest is above the highest where no value could have become this pixel, as after a
    compression with loss.
    """
    alpha = mark.alpha[..., None]
    through = np.maximum(1 - alpha, 1e-6)
    under = marked - alpha * mark.colour
    lowest, highest = (under - 0.5) / through, (under + 0.5) / through
    impossible = (highest < 0) | (lowest > 255)
    lowest, highest = np.clip(lowest, 0, 255), np.clip(highest, 0, 255)
    return (
        np.where(impossible, 255, lowest).astype(np.float32),
        np.clip(under / through, 0, 255).astype(np.float32),
        np.where(impossible, 0, highest).astype(np.float32),
    )
