"""Whether a mark is on an image in its place, and how much of it is left after its removal.

Both compare fine detail only: what a picture does slowly across a mark says nothing about it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation, gaussian_filter

from activities.imaging.labels.mark import Floats, Mark

Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]

# `presence` from which a mark is there. Measured on photographs and flat areas of 64 to 600 pixels,
# with opacities from 0.15 to 1, as PNG and as JPEG down to quality 75: 0.34 and more with the mark
# (0.32 on pure noise), 0.15 and less without it, and up to 0.31 with another text of which most
# letters lie in the same places.
FOUND = 0.32
# `residual` from which what is left of a mark can be seen: about 3 levels of its shape on a flat
# area, and more where the picture is rough. On the same photographs 0.35 and less without a mark
# and after a lossless removal.
RESIDUAL_VISIBLE = 0.5

# A mark is looked for this far around its place, in pixels: one that fits better there is another.
_REACH = 3
# The window around the mark's box in pixels: more than any filter here looks around itself.
_PAD = 12
# Pixels with less of the mark than this tell what lies under it.
_FREE_ALPHA = 0.02
# Detail below this, in levels, is rounding: on a flat area it would otherwise decide.
_ROUNDING = 1.0
# Detail below this, in levels, is not seen by a person.
_VISIBLE = 5.0
# Pixels up to this far from the mark's strokes are what those are compared with.
_BESIDE = 6
# The mark is looked at in so many parts from left to right.
_PARTS = 8


def presence(pixels: Pixels, mark: Mark) -> float:
    """How surely an image (height, width, 3) carries the mark in its place: 1 surely, 0 not.

    The geometric mean of the likeness of its detail to what the mark would do to this background
    (normalised cross-correlation) and of the strength in which it is there: a faint mark on a
    rough texture has little of the first, but all of the second. Negative where the mark's
    negative is there, or where the mark fits better some pixels further.
    """
    window = _Window.around(pixels, mark)
    expected = window.detail_of(window.change())
    here = window.likeness(expected, 0, 0, _ROUNDING)
    elsewhere = max(
        window.likeness(expected, down, right, _ROUNDING)
        for down in range(-_REACH, _REACH + 1)
        for right in range(-_REACH, _REACH + 1)
        if (down, right) != (0, 0)
    )
    if 0 <= here < elsewhere:
        return here - elsewhere
    strength = window.strength(expected)
    return float(np.sign(here) * np.sqrt(abs(here) * min(strength, 1 / max(strength, 1e-6))))


def residual(pixels: Pixels, mark: Mark) -> float:
    """How visible the rest of a removed mark is: 0 not at all, 1 nothing but the mark is seen.

    The larger of two: the likeness of the detail to the mark's, in either polarity; and how much
    rougher the pixels under the mark are than those between its strokes.
    """
    window = _Window.around(pixels, mark)
    shapes = (window.change(), np.repeat(window.alpha[..., None], 3, axis=-1) * np.float32(255))
    likeness = [abs(window.likeness(window.detail_of(shape), 0, 0, _VISIBLE)) for shape in shapes]
    return max(*likeness, window.roughness())


@dataclass(frozen=True)
class _Window:
    """An image around a mark, `_PAD` pixels wide on each side; continued at the image's edges."""

    pixels: Floats
    detail: Floats
    alpha: Floats
    colour: Floats
    scale: float

    @classmethod
    def around(cls, image: Pixels, mark: Mark) -> "_Window":
        left, top, right, bottom = mark.box
        rows = np.clip(np.arange(top - _PAD, bottom + _PAD), 0, image.shape[0] - 1)
        columns = np.clip(np.arange(left - _PAD, right + _PAD), 0, image.shape[1] - 1)
        pixels = image[np.ix_(rows, columns)].astype(np.float32)
        # About the width of a letter's stroke, so that detail is what the strokes are made of.
        scale = min(max(mark.height / 20, 1.0), 3.0)
        return cls(
            pixels=pixels,
            detail=_detail(pixels, scale),
            alpha=np.pad(mark.alpha, _PAD),
            colour=np.pad(mark.colour, ((_PAD, _PAD), (_PAD, _PAD), (0, 0))),
            scale=scale,
        )

    @property
    def _box(self) -> tuple[slice, slice]:
        height, width = self.alpha.shape
        return slice(_PAD, height - _PAD), slice(_PAD, width - _PAD)

    def change(self) -> Floats:
        """What the mark does to each pixel of a background which is as smooth as it can be."""
        free = (self.alpha < _FREE_ALPHA).astype(np.float32)[..., None]
        reach = max(2.0, (self.alpha.shape[0] - 2 * _PAD) / 8)
        around = _blurred(self.pixels * free, reach) / np.maximum(_blurred(free, reach), 1e-3)
        return (self.alpha[..., None] * (self.colour - around)).astype(np.float32)

    def detail_of(self, values: Floats) -> Floats:
        """As fine as the image's detail, for the mark's box alone."""
        return _detail(values, self.scale)[self._box]

    def likeness(self, expected: Floats, down: int, right: int, floor: float) -> float:
        """Correlation of the detail so many pixels away from the box with what is expected.

        `floor`, in levels, is added to the image's own detail, so that nothing is like nothing.
        """
        rows, columns = self._box
        found = self.detail[
            rows.start + down : rows.stop + down, columns.start + right : columns.stop + right
        ]
        energy = (np.mean(found**2) + floor**2) * (np.mean(expected**2) + (_ROUNDING / 10) ** 2)
        return float(np.mean(found * expected) / np.sqrt(energy))

    def strength(self, expected: Floats) -> float:
        """How strongly the expected detail is there: 1 as expected; of either sign."""
        product = np.mean(self.detail[self._box] * expected)
        return float(abs(product) / (np.mean(expected**2) + (_ROUNDING / 10) ** 2))

    def roughness(self) -> float:
        """Detail under the mark beyond twice what lies beside it, as a share of what is seen.

        The median over parts of the mark: an edge of the picture's own is in few of them.
        """
        under = self.alpha >= self.alpha.max() / 2
        free = self.alpha < _FREE_ALPHA * self.alpha.max()
        beside = free & binary_dilation(under, iterations=_BESIDE)
        energy = np.mean(self.detail**2, axis=-1)
        parts = (np.array_split(plane, _PARTS, axis=1) for plane in (energy, under, beside))
        return float(np.median([_excess(*part) for part in zip(*parts, strict=True)]))


def _excess(energy: Floats, under: Mask, beside: Mask) -> float:
    if not (under.any() and beside.any()):
        return 0.0
    inside, outside = float(energy[under].mean()), float(energy[beside].mean())
    return float(np.sqrt(max(inside - 2 * outside, 0.0) / (inside + _VISIBLE**2)))


def _blurred(values: Floats, scale: float) -> Floats:
    return np.asarray(gaussian_filter(values, (scale, scale, 0), mode="nearest"), np.float32)


def _detail(values: Floats, scale: float) -> Floats:
    return values - _blurred(values, scale)
