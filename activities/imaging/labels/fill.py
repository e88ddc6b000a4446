"""Fills pixels that nothing is known of from those around them.

Each hidden region becomes the smoothest surface that meets its surroundings: the one of least
squared Laplacian, a biharmonic surface, found by one sparse solve for all colours.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from activities.imaging.labels.mark import Floats

Mask = NDArray[np.bool_]

MID_GREY = 127.5
# Above this many unknowns the solve takes seconds: they are solved at half the resolution first.
_MOST_UNKNOWNS = 40_000


def fill_hidden(pixels: Floats, hidden: Mask) -> Floats:
    """The pixels, (height, width, colours), with the hidden ones, (height, width), made up.

    All others are kept as they are. Where everything is hidden the result is mid-grey.
    """
    if hidden.all():
        return np.full_like(pixels, MID_GREY)
    filled = np.array(pixels, np.float32)
    rows, columns = _around(hidden, 2)
    filled[rows, columns] = _filled(filled[rows, columns], hidden[rows, columns])
    return filled


def _around(hidden: Mask, margin: int) -> tuple[slice, slice]:
    """The part of the image that the solve looks at."""
    ys, xs = np.nonzero(hidden)
    if not ys.size:
        return slice(0, 0), slice(0, 0)
    return (
        slice(max(ys.min() - margin, 0), ys.max() + margin + 1),
        slice(max(xs.min() - margin, 0), xs.max() + margin + 1),
    )


def _filled(pixels: Floats, hidden: Mask) -> Floats:
    unknowns = int(hidden.sum())
    if not unknowns:
        return pixels
    if unknowns > _MOST_UNKNOWNS:
        return _filled_coarsely(pixels, hidden)
    laplacian = _laplacian(*hidden.shape)
    inside = hidden.ravel()
    flat = pixels.reshape(inside.size, -1).astype(np.float64)
    touching = laplacian[:, inside]
    known = laplacian[:, ~inside] @ flat[~inside]
    # The small term keeps the matrix regular where a region has too few known neighbours.
    normal = touching.T @ touching + 1e-9 * sparse.eye_array(unknowns)
    solved = linalg.splu(sparse.csc_array(normal)).solve(-(touching.T @ known))
    flat[inside] = np.clip(solved, 0, 255)
    return flat.reshape(pixels.shape).astype(np.float32)


def _laplacian(height: int, width: int) -> sparse.csr_array:
    """Of a grid that is mirrored at its border: rows sum to 0."""
    down, across = _second_difference(height), _second_difference(width)
    both = sparse.kron(down, sparse.eye_array(width)) + sparse.kron(
        sparse.eye_array(height), across
    )
    return sparse.csr_array(both)


def _second_difference(length: int) -> sparse.dia_array:
    middle = np.full(length, -2.0)
    middle[[0, -1]] = -1 if length > 1 else 0
    beside = np.ones(length - 1)
    return sparse.diags_array([beside, middle, beside], offsets=[-1, 0, 1])


def _filled_coarsely(pixels: Floats, hidden: Mask) -> Floats:
    """Solve at half the resolution, from means of the known pixels, and enlarge."""
    height, width = hidden.shape
    edge = ((0, height % 2), (0, width % 2))
    known = np.pad(~hidden, edge)[..., None].astype(np.float32)
    padded = np.pad(pixels, (*edge, (0, 0))) * known
    count = _summed(known)
    small = _summed(padded) / np.maximum(count, 1)
    small = _filled(small, count[..., 0] == 0)
    large = small.repeat(2, axis=0).repeat(2, axis=1)[:height, :width]
    return np.where(hidden[..., None], large, pixels)


def _summed(values: Floats) -> Floats:
    """Sums of 2 × 2 pixels."""
    tall = values[::2] + values[1::2]
    return tall[:, ::2] + tall[:, 1::2]
