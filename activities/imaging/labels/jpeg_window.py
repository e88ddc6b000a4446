"""The part of a JPEG image around a mark, plane by plane, as its encoder saw it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from activities.imaging.labels.jpeg_coefficients import Coefficients, Table
from activities.imaging.labels.jpeg_stream import Component, Frame
from activities.imaging.labels.mark import Floats, Mark

# From RGB to luma and the two chromas: JFIF (ITU-T T.871), section 7.
_TO_YCC = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32
)
_OFFSETS = np.array([0, 128, 128], np.float32)
# In MCUs, on each side of the mark: what lies around it tells what is under it.
_MARGIN = 1

Blocks = tuple[slice, slice]


@dataclass(frozen=True)
class Plane:
    """One colour plane of the window: what came in, and what the mark did to it.

    `received` is (block rows, block columns, 8, 8), dequantised; `steps` are the quantisation
    steps, (8, 8); `kept` and `added` are (height, width) in samples of this plane: a marked sample
    is `kept * sample + added`. `touched` tells which blocks, (rows, columns), the mark reaches.
    """

    blocks: Blocks
    received: Floats
    steps: Floats
    kept: Floats
    added: Floats
    touched: NDArray[np.bool_]

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Samples that the mark changed, (height, width)."""
        return self.kept < 1


@dataclass(frozen=True)
class _Window:
    """Whole MCUs, in pixels of the image; may reach beyond its right and lower border."""

    left: int
    top: int
    right: int
    bottom: int


def planes_around(
    frame: Frame, mark: Mark, coefficients: list[Coefficients], tables: list[Table]
) -> list[Plane]:
    """The planes of the window around the mark, in the file's order."""
    window = _window(frame, mark)
    alpha = _on_canvas(mark.alpha[..., None], mark, window, frame)
    colour = _on_canvas(mark.colour, mark, window, frame) @ _TO_YCC.T + _OFFSETS
    touched = _touched_mcus(alpha[..., 0], frame)
    return [
        _plane(
            frame, component, window, alpha[..., 0], colour[..., index], touched, quantised, table
        )
        for index, (component, quantised, table) in enumerate(
            zip(frame.components, coefficients, tables, strict=True)
        )
    ]


def _window(frame: Frame, mark: Mark) -> _Window:
    wide, high = 8 * frame.across, 8 * frame.down
    left, top, right, bottom = mark.box
    return _Window(
        left=max(left // wide - _MARGIN, 0) * wide,
        top=max(top // high - _MARGIN, 0) * high,
        right=min(-(-right // wide) + _MARGIN, -(-frame.width // wide)) * wide,
        bottom=min(-(-bottom // high) + _MARGIN, -(-frame.height // high)) * high,
    )


def _on_canvas(values: Floats, mark: Mark, window: _Window, frame: Frame) -> Floats:
    """The mark's values laid on the window, 0 around it.

    Beyond the image's border the last row and column go on: that is how encoders fill their blocks.
    """
    right, bottom = min(window.right, frame.width), min(window.bottom, frame.height)
    canvas = np.zeros((bottom - window.top, right - window.left, values.shape[-1]), np.float32)
    top, left = mark.top - window.top, mark.left - window.left
    canvas[top : top + mark.height, left : left + mark.width] = values
    beyond = ((0, window.bottom - bottom), (0, window.right - right), (0, 0))
    return np.pad(canvas, beyond, mode="edge")


def _touched_mcus(alpha: Floats, frame: Frame) -> NDArray[np.bool_]:
    wide, high = 8 * frame.across, 8 * frame.down
    rows, columns = alpha.shape[0] // high, alpha.shape[1] // wide
    strongest: Floats = alpha.reshape(rows, high, columns, wide).max(axis=(1, 3))
    return strongest > 0


def _plane(
    frame: Frame,
    component: Component,
    window: _Window,
    alpha: Floats,
    colour: Floats,
    touched: NDArray[np.bool_],
    coefficients: Coefficients,
    table: Table,
) -> Plane:
    across, down = frame.across // component.across, frame.down // component.down
    blocks = (
        slice(window.top // (8 * down), window.bottom // (8 * down)),
        slice(window.left // (8 * across), window.right // (8 * across)),
    )
    steps = table.astype(np.float32)
    received = coefficients[blocks] * steps
    # A component may end before its last MCU does: those blocks are in no file.
    rows, columns = received.shape[:2]
    in_samples = slice(8 * rows), slice(8 * columns)
    return Plane(
        blocks=blocks,
        received=received,
        steps=steps,
        kept=np.maximum(1 - _shrunk(alpha, across, down)[in_samples], 0),
        added=_shrunk(alpha * colour, across, down)[in_samples],
        touched=touched.repeat(component.down, 0).repeat(component.across, 1)[:rows, :columns],
    )


def _shrunk(values: Floats, across: int, down: int) -> Floats:
    """Means of `across` × `down` pixels, as encoders make chroma."""
    rows, columns = values.shape[0] // down, values.shape[1] // across
    means: Floats = values.reshape(rows, down, columns, across).mean(axis=(1, 3))
    return means
