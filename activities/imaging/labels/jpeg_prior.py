"""What photographs look like, for whoever must guess: few DCT coefficients say most of a patch.

The filter is translation-invariant hard thresholding (R. Coifman, D. Donoho, "Translation-invariant
de-noising", 1995) of overlapping 8 × 8 patches.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from activities.imaging.labels.mark import Floats

PATCH = 8
"""The side of a patch, in samples."""
# Of two pixels in each direction one begins a patch: half the time, and nothing lost.
_STRIDE = 2
# Patches at a time: they stay in the processor's cache, and large marks take no more memory.
_BAND = 16_384

_dct_1d = fft.dct(np.eye(PATCH), axis=0, norm="ortho").astype(np.float32)
DCT: NDArray[np.float32] = np.kron(_dct_1d, _dct_1d)
"""(64, 64): of a flattened 8 × 8 block, vertical frequency first; orthonormal."""


def smoothed(plane: Floats, noise: Floats, strength: Floats, phase: tuple[int, int]) -> Floats:
    """The plane, (height, width), without what is smaller than its noise.

    `noise` is a threshold for each frequency, (64,); `strength` scales it at each sample, as
    `plane`, in squares. `phase`, 0 or 1 each, shifts the patches: vary it between calls. Samples
    within `PATCH` of the edges may come back as they were.
    """
    patches, strengths = _patches(plane, phase), _patches(strength, phase)
    total, weights = np.zeros_like(plane), np.zeros_like(plane)
    band = max(_BAND // patches.shape[1], 1)
    for first in range(0, patches.shape[0], band):
        part = slice(first, first + band)
        filtered, weight = _thresholded(patches[part], strengths[part], noise)
        at = phase[0] + _STRIDE * first, phase[1]
        _add(total, filtered * weight[..., None], at)
        _add(weights, np.broadcast_to(weight[..., None], filtered.shape), at)
    return np.divide(total, weights, out=plane.copy(), where=weights > 0)


def _patches(plane: Floats, phase: tuple[int, int]) -> Floats:
    """A view, (rows, columns, 8, 8)."""
    windows = np.lib.stride_tricks.sliding_window_view(plane, (PATCH, PATCH))
    return windows[phase[0] :: _STRIDE, phase[1] :: _STRIDE]


def _thresholded(patches: Floats, strengths: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Filtered patches, (rows, columns, 64), and how much each counts, (rows, columns).

    A patch of few coefficients and little noise is the one to believe.
    """
    rows, columns = patches.shape[:2]
    variance = strengths.mean(axis=(2, 3)).reshape(-1, 1)
    spectrum = patches.reshape(-1, PATCH * PATCH) @ DCT.T
    kept = np.abs(spectrum) > noise * np.sqrt(variance)
    kept[:, 0] = True
    filtered = (spectrum * kept) @ DCT
    weight = 1 / (kept.sum(axis=1, dtype=np.float32) * np.sqrt(variance[:, 0]))
    return filtered.reshape(rows, columns, -1), weight.reshape(rows, columns)


def _add(target: Floats, patches: Floats, at: tuple[int, int]) -> None:
    """Add the patches where they came from, one of their 64 samples at a time."""
    rows, columns = patches.shape[:2]
    for index in range(PATCH * PATCH):
        down, right = at[0] + index // PATCH, at[1] + index % PATCH
        target[down : down + _STRIDE * rows : _STRIDE, right : right + _STRIDE * columns : _STRIDE][
            :rows, :columns
        ] += patches[..., index]
