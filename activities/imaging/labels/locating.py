"""Finds a mark in images that all carry it: what is alike in all of them, pictures are not."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation, find_objects, gaussian_filter, label, uniform_filter

from activities.imaging.labels.mark import Floats

Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Box = tuple[int, int, int, int]

# An image is a flat probe where at least this share of it is one colour, give or take a few
# levels that a compression may have changed.
_FLAT_SHARE = 0.75
_FLAT_LEVELS = 3
# Detail beyond this, in levels, is a picture's own edge: it may not outvote the other pictures.
_STRONGEST_DETAIL = 40.0
_DETAIL_SCALE = 2.0
# How many times as much detail as by chance all pictures must have in common: of a pixel of the
# mark, and at the mark's clearest place.
_SHARED, _SURELY_SHARED = 5.0, 15.0
_SMALLEST_AREA = 30


def flat_colours(samples: Sequence[Pixels]) -> list[Floats] | None:
    """The colour, (3,) in 0…255, of each sample, where all of them are flat probes."""
    colours = []
    for sample in samples:
        colour = np.median(sample, axis=(0, 1)).astype(np.float32)
        if np.mean(_away_from(colour, sample) <= _FLAT_LEVELS) < _FLAT_SHARE:
            return None
        colours.append(colour)
    return colours


def _away_from(colour: Floats, sample: Pixels) -> Floats:
    away: Floats = np.abs(sample - colour).max(axis=-1)
    return away


def marked_pixels(samples: Sequence[Pixels]) -> Mask:
    """Where (height, width) the samples carry the same thing; may be empty."""
    colours = flat_colours(samples)
    if colours is None:
        return _largest_cluster(_shared_detail(samples))
    away = [_away_from(*pair) for pair in zip(colours, samples, strict=True)]
    return np.asarray(np.max(away, axis=0) > _FLAT_LEVELS, np.bool_)


def box_of(mask: Mask) -> Box | None:
    """Left, top, right, bottom of all that is set, with a pixel around it; None of nothing."""
    if np.count_nonzero(mask) < _SMALLEST_AREA:
        return None
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return (
        max(0, int(columns[0]) - 1),
        max(0, int(rows[0]) - 1),
        min(mask.shape[1], int(columns[-1]) + 2),
        min(mask.shape[0], int(rows[-1]) + 2),
    )


def _shared_detail(samples: Sequence[Pixels]) -> Floats:
    """The energy of the mean detail over what chance makes of it: about 1 without a mark.

    An F statistic, over some pixels around each one.
    """
    total = np.zeros(samples[0].shape[:2], np.float32)
    squares = np.zeros_like(total)
    for sample in samples:
        grey = sample.astype(np.float32).mean(axis=-1)
        detail = grey - gaussian_filter(grey, _DETAIL_SCALE)
        detail = np.clip(detail, -_STRONGEST_DETAIL, _STRONGEST_DETAIL)
        total += detail
        squares += detail**2
    count = len(samples)
    mean = total / count
    variance = np.maximum(squares / count - mean**2, 0) * count / (count - 1)
    # Half a level: flat areas are alike in all pictures and no mark.
    by_chance = uniform_filter(variance, 9) / count + 0.25
    return np.asarray(uniform_filter(mean**2, 5) / by_chance, np.float32)


def _largest_cluster(shared: Floats) -> Mask:
    """The letters of one text lie apart: what lies near one another is taken together."""
    alike = shared > _SHARED
    gap = max(4, min(shared.shape) // 50)
    clusters, count = label(binary_dilation(alike, iterations=gap))
    if count == 0:
        return np.zeros_like(alike)
    weights = np.bincount(clusters.ravel(), (shared * alike).ravel())
    weights[0] = 0
    chosen = int(np.argmax(weights))
    place = find_objects(clusters)[chosen - 1]
    if shared[place].max() < _SURELY_SHARED:
        return np.zeros_like(alike)
    return np.asarray(alike & (clusters == chosen), np.bool_)
