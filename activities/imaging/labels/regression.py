"""Fits what a mark does to its background, pixel by pixel, over many images."""

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from activities.imaging.labels.mark import Floats

Mask = NDArray[np.bool_]

# How far around a hidden pixel its background is judged by, in pixels.
_NEARBY = 6.0
# Error variances, in levels squared: of rounding and noise at the least, and of a flat probe.
_LEAST_VARIANCE = 4.0
TRUST_IN_FLATS = 4.0
# Too few samples can agree by chance: the backgrounds are never taken for much better than that.
_LEAST_WORSE = 0.25
# Standard deviation in levels of the brightness of pictures.
_USUAL_SPREAD = 60.0


def trust_in(pixels: Floats, hidden: Mask) -> Floats:
    """One over the error variance (height, width) to expect where the background is made up."""
    grey, seen = pixels.mean(axis=-1), (~hidden).astype(np.float32)
    share = gaussian_filter(seen, _NEARBY) + 1e-3
    mean = gaussian_filter(grey * seen, _NEARBY) / share
    spread = gaussian_filter(((grey - mean) * seen) ** 2, _NEARBY) / share
    return np.asarray(1 / (spread + _LEAST_VARIANCE), np.float32)


def straight_lines(
    under: Floats, marked: Floats, trust: Floats, hidden: Mask
) -> tuple[Floats, Floats, Floats]:
    """Weighted least squares per pixel, with one slope for all three channels.

    Takes (samples, height, width, 3) and weights (samples, height, width). Returns alpha
    (height, width), offset (height, width, 3) and the standard error (height, width), in levels,
    of a pixel that is recovered with them.
    """
    weights = trust[..., None]
    total = weights.sum(axis=0)
    mean_under, mean_marked = ((weights * values).sum(axis=0) / total for values in (under, marked))
    away, above = under - mean_under, marked - mean_marked
    spread = (weights * away**2).sum(axis=(0, 3)) + 1e-6
    slope = np.clip((weights * away * above).sum(axis=(0, 3)) / spread, 0, 1)
    offset = mean_marked - slope[..., None] * mean_under
    # How much worse the backgrounds are than was expected of them, over the whole mark.
    misses = (weights * (above - slope[..., None] * away) ** 2).sum(axis=(0, 3))
    freedom = 3 * len(under) - 4
    worse = np.mean((misses / np.maximum(slope, 0.1) ** 2)[hidden]) / freedom
    # The line's height is off, and its slope, which tells on backgrounds of unusual brightness.
    error = np.sqrt(max(worse, _LEAST_WORSE) * (1 / total[..., 0] + 3 * _USUAL_SPREAD**2 / spread))
    return (1 - slope).astype(np.float32), offset.astype(np.float32), error.astype(np.float32)
