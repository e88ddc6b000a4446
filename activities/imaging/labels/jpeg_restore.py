"""Finds the picture under a mark from the quantised coefficients of the marked one.

A coefficient in the file says only in which cell of its quantiser the marked picture's lay. Of all
pictures which, marked, fall into those cells, the one that looks most like a photograph is wanted.
Two steps take turns: smooth (jpeg_prior), then go back into the cells. Smoothing weakens from one
turn to the next, so that coarse shapes settle before detail.
"""

import numpy as np
from numpy.typing import NDArray

from activities.imaging.labels.fill import fill_hidden, fill_smoothly
from activities.imaging.labels.jpeg_blocks import quantised, samples_of, spectrum_of
from activities.imaging.labels.jpeg_prior import PATCH, smoothed
from activities.imaging.labels.jpeg_window import Plane
from activities.imaging.labels.mark import Floats

STEPS = 6

# Tuned on six photographs, reported on others: benchmarks/label_removal.py.
_STRENGTH = 3.0
# Of a quantiser's cell, how far from its middle a coefficient may be. The true one is rarely near
# the border: 0.5, the whole cell, is 0.7 dB worse.
_REACH = 0.38
# How far towards the cells a step goes: further than there, since the next smoothing undoes a part.
_HASTE = 1.5
# After the last step: what the way into the cells has roughened. Matters under strong marks.
_LAST_STRENGTH = 0.7
# Below this nothing of the picture is left in the file, and the fill stands.
_OPAQUE = 0.05
# Under a mark that keeps less than this, noise counts as if it kept this much.
_LEAST_KEPT = 0.1
# A sample that keeps more than this needs no start from its surroundings.
_CLEAR = 0.98


class Restoration:
    """One plane on its way from marked to unmarked."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._area = _area_of(plane.marked)
        strength: Floats = np.maximum(plane.kept, _LEAST_KEPT) ** -2
        self._strength = _mirrored(strength)[self._area]
        self._noise = _noise(plane.steps)
        self._samples = _start(plane)

    def step(self, number: int) -> None:
        """One turn of both steps; `number` counts from 0."""
        self._smooth(_STRENGTH * (1 - number / STEPS), (number % 2, number // 2 % 2))
        self._samples += _HASTE * _way_into_cells(self._plane, self._samples)

    def _smooth(self, strength: float, phase: tuple[int, int]) -> None:
        """Smooth the marked samples; the others are known as well as they can be."""
        padded = _mirrored(self._samples)
        padded[self._area] = smoothed(
            padded[self._area], strength * self._noise, self._strength, phase
        )
        inner = padded[PATCH:-PATCH, PATCH:-PATCH]
        self._samples = np.where(self._plane.marked, inner, self._samples)

    def finish(self) -> None:
        """Smooth once more, after the last step."""
        self._smooth(_LAST_STRENGTH, (0, 0))

    def quantised(self) -> Floats:
        """The coefficients of the picture found, whole numbers, shaped as `Plane.received`."""
        return quantised(self._samples, self._plane.steps)


def _start(plane: Plane) -> Floats:
    """The mark undone sample by sample where it is faint, filled from around it where it is strong.

    Too smooth a start is better than too noisy a one: the steps add detail, and remove little. The
    better fill is worth its time only where it stays, under an opaque mark.
    """
    received = samples_of(plane.received)
    undone: Floats = np.clip((received - plane.added) / np.maximum(plane.kept, _OPAQUE), 0, 255)
    fill = fill_hidden if (plane.kept <= _OPAQUE).any() else fill_smoothly
    filled = fill(undone[..., None], plane.kept < _CLEAR)[..., 0]
    trust: Floats = np.sqrt(plane.kept)
    start: Floats = trust * undone + (1 - trust) * filled
    return start


def _mirrored(samples: Floats) -> Floats:
    """A patch's width more on each side, so that patches reach over every sample."""
    return np.pad(samples, PATCH, mode="symmetric")


def _area_of(marked: NDArray[np.bool_]) -> tuple[slice, slice]:
    """What patches that hold a marked sample cover, in a mirrored plane."""
    rows, columns = np.nonzero(marked.any(axis=1))[0], np.nonzero(marked.any(axis=0))[0]
    if not rows.size:
        return slice(0, 2 * PATCH), slice(0, 2 * PATCH)
    return (
        slice(int(rows[0]), int(rows[-1]) + 2 * PATCH + 1),
        slice(int(columns[0]), int(columns[-1]) + 2 * PATCH + 1),
    )


def _noise(steps: Floats) -> Floats:
    """The quantiser's noise at each frequency, (64,), in levels.

    It grows with the square root of the step: the coarse steps are of high frequencies, which most
    blocks lack anyway.
    """
    lowest = np.sqrt(np.mean(steps[:2, :2] ** 2) / 12)
    noise: Floats = (lowest * np.sqrt(steps / steps[0, 0])).reshape(64).astype(np.float32)
    return noise


def _way_into_cells(plane: Plane, samples: Floats) -> Floats:
    """What to add to the samples so that, marked, their coefficients lie in the received cells."""
    marked = spectrum_of(plane.kept * samples + plane.added)
    middle, reach = plane.received, _REACH * plane.steps
    missing = np.clip(marked, middle - reach, middle + reach) - marked
    change = samples_of(missing) - 128
    way: Floats = np.where(plane.kept > _OPAQUE, change / np.maximum(plane.kept, _OPAQUE), 0)
    return way
