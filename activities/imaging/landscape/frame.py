"""The frame of a picture and the brush: how a colour gets onto a band of its rows."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from activities.imaging.landscape.noise import F32, U8, clamp, floor_index, randoms
from activities.imaging.landscape.recipe import Colour

# Rows painted at a time: the temporaries of a band stay in the CPU's cache and out of memory. It
# moves pixels too, because a step's share of the painting is a whole number of bands.
_PIXELS_IN_A_BAND = 1 << 15


@dataclass(frozen=True)
class Frame:
    """A picture's size. One unit of length is the side of a square of the same area."""

    width: int
    height: int

    @cached_property
    def unit(self) -> float:
        """Pixels in one unit of length."""
        return math.sqrt(self.width * self.height)

    @property
    def wide(self) -> float:
        return self.width / self.unit

    @property
    def high(self) -> float:
        return self.height / self.unit

    @cached_property
    def xs(self) -> F32:
        """The centre of each column, in units of length."""
        return ((np.arange(self.width) + 0.5) / self.unit).astype(np.float32)

    def ys(self, rows: range) -> F32:
        """The centre of each row, in units of length."""
        return ((np.arange(rows.start, rows.stop) + 0.5) / self.unit).astype(np.float32)

    def bands(self, first: int, last: int) -> list[range]:
        """The rows from `first` up to `last`, cut into bands."""
        step = max(1, _PIXELS_IN_A_BAND // self.width)
        return [range(row, min(row + step, last)) for row in range(first, last, step)]


def planes(colour: Colour) -> F32:
    """A colour in the shape (3, 1, 1), which spreads over a band of shape (3, rows, columns)."""
    return np.array(colour, np.float32)[:, None, None]


def mixed(first: Colour, second: Colour, t: float) -> Colour:
    red, green, blue = (a + (b - a) * t for a, b in zip(first, second, strict=True))
    return red, green, blue


def ramp(first: F32, second: F32, t: F32) -> F32:
    """From one colour to another where `t` goes from 0 to 1."""
    return first + (second - first) * t


def lay(band: F32, colour: F32, cover: F32) -> None:
    """Lay a colour over a band, as opaque as `cover` says in 0..1."""
    band += (colour - band) * cover


def screen(band: F32, colour: F32, amount: F32) -> None:
    """Add light, which never goes beyond white."""
    band += (1.0 - band) * (colour * amount)


def sprinkle(
    frame: Frame, salt: int, *, count: int, radius: float, top: float, bottom: float
) -> U8:
    """The cover of `count` soft dots of up to `radius` units, between the heights given.

    Returned in 0..255 for the whole frame: dots are few, so that this is cheap in any order.
    """
    random = randoms(salt, np.arange(count * 4)).reshape(4, count)
    dots = _Dots(
        y=(random[0] * np.float32(bottom - top) + np.float32(top)) * np.float32(frame.unit),
        x=random[1] * np.float32(frame.width),
        # Most are small: the square of a number in 0..1 is mostly small.
        size=np.maximum(random[2] * random[2] * np.float32(radius * frame.unit), 0.6),
        glow=0.35 + 0.65 * random[3],
    )
    cover = np.zeros((frame.height, frame.width), np.float32)
    reach = int(radius * frame.unit) + 1
    for row in range(-reach, reach + 1):
        for column in range(-reach, reach + 1):
            dots.stamp(cover, row, column)
    return (cover * 255.0).astype(np.uint8)


@dataclass(frozen=True)
class _Dots:
    """Soft round dots, in pixels."""

    y: F32
    x: F32
    size: F32
    glow: F32

    def stamp(self, cover: F32, row: int, column: int) -> None:
        """Lay one pixel of every dot: the one `row` and `column` away from its centre."""
        at_row, at_column = floor_index(self.y) + row, floor_index(self.x) + column
        down = at_row.astype(np.float32) + 0.5 - self.y
        across = at_column.astype(np.float32) + 0.5 - self.x
        away: F32 = (down * down + across * across) / (self.size * self.size)
        strength = clamp(1.3 - away) * self.glow
        height, width = cover.shape
        seen = (strength > 0.0) & (at_row >= 0) & (at_row < height)
        seen &= (at_column >= 0) & (at_column < width)
        np.maximum.at(cover, (at_row[seen], at_column[seen]), strength[seen])
