"""Integer-hash noise and the small array vocabulary that all painting here is written in."""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]

_WORD = 0xFFFFFFFF


def scramble(values: U32) -> U32:
    """Mix the bits of each value in place (the "lowbias32" constants of C. Wellons)."""
    values ^= values >> 16
    values *= 0x7FEB352D
    values ^= values >> 15
    values *= 0x846CA68B
    values ^= values >> 16
    return values


def hash_grid(salt: int, rows: I64, columns: I64) -> U32:
    """A random word for each (row, column), the same for the same coordinates in any call."""
    row_keys = scramble(((rows * 0x9E3779B1 + salt) & _WORD).astype(np.uint32))
    column_keys = ((columns * 0x85EBCA77) & _WORD).astype(np.uint32)
    return scramble(row_keys[:, None] + column_keys[None, :])


def unit(words: U32) -> F32:
    """Random words as numbers in 0..1; 24 bits, so that float32 holds each one exactly."""
    return (words >> 8).astype(np.float32) * np.float32(2.0**-24)


def randoms(salt: int, indices: I64) -> F32:
    """One number in 0..1 for each index."""
    return unit(hash_grid(salt, np.zeros(1, np.int64), indices)[0])


def clamp(values: F32) -> F32:
    """Limit to 0..1, in place."""
    return np.clip(values, 0.0, 1.0, out=values)


def smooth(values: F32) -> F32:
    """Limit to 0..1, with soft ends."""
    t = np.clip(values, 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def floor_index(values: F32) -> I64:
    """Round down to indices."""
    return np.floor(values).astype(np.int64)


def fractal(salt: int, ys: F32, xs: F32, octaves: int) -> F32:
    """Cloud-like noise in 0..1, of shape (len(ys), len(xs)); one lattice cell is 1 unit wide.

    `ys` and `xs` may be any functions of the pixel rows and columns: that is how clouds flatten
    towards the horizon. Octaves finer than a pixel are left out: they would only flicker.
    """
    total = _value_noise(salt, ys, xs)
    weight, cells = 1.0, float(xs[-1] - xs[0])
    for octave in range(1, octaves):
        frequency = float(1 << octave)
        if cells * frequency > len(xs):
            break
        layer = _value_noise(salt + 7919 * octave, ys * frequency, xs * frequency + octave * 0.37)
        layer *= 1.0 / frequency
        total += layer
        weight += 1.0 / frequency
    total *= 1.0 / weight
    return total


def profile(salt: int, xs: F32, octaves: int) -> F32:
    """One line of `fractal`: a function of the column alone."""
    line: F32 = fractal(salt, np.full(1, 0.5, np.float32), xs, octaves)[0]
    return line


def _value_noise(salt: int, ys: F32, xs: F32) -> F32:
    row, column = floor_index(ys), floor_index(xs)
    first_row, first_column = int(row.min()), int(column.min())
    rows = np.arange(first_row, int(row.max()) + 2)
    columns = np.arange(first_column, int(column.max()) + 2)
    lattice = unit(hash_grid(salt, rows, columns))
    column -= first_column
    row -= first_row
    # Columns first: the lattice has few rows, so that only the second half costs a full frame.
    lines = _between(lattice[:, column], lattice[:, column + 1], smooth(xs - np.floor(xs)))
    return _between(lines[row], lines[row + 1], smooth(ys - np.floor(ys))[:, None])


def _between(low: F32, high: F32, t: F32) -> F32:
    high -= low
    high *= t
    high += low
    return high
