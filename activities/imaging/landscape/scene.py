"""The finished scene: sky, land, water, weather and a last look at contrast and colour."""

from collections import deque
from collections.abc import Iterator

import numpy as np

from activities.imaging.landscape.frame import Frame, lay, mixed, planes, ramp, screen, sprinkle
from activities.imaging.landscape.land import Ridge, paint_ridge, paint_trees, relief_of
from activities.imaging.landscape.layout import Layer, Layout
from activities.imaging.landscape.noise import F32, I64, U8, clamp, fractal, hash_grid, smooth, unit
from activities.imaging.landscape.recipe import Colour, Recipe
from activities.imaging.landscape.sky import Sky

_FLOWERS: tuple[Colour, ...] = ((1.0, 0.93, 0.7), (0.98, 0.72, 0.3), (0.86, 0.6, 0.9))
# About the side of a sketch in pixels.
_SKETCH_SIDE = 128


class Painting:
    """A picture that is painted from the top to the bottom, as far as it is asked for.

    `picture`, of shape (height, width, 3), is complete from the start: what is not painted yet
    shows a sketch, a smaller painting of the same recipe. So a caller can spread the work.
    """

    def __init__(self, recipe: Recipe, frame: Frame) -> None:
        self.picture = _sketched(recipe, frame)
        self._recipe = recipe
        self._frame = frame
        layout = Layout(recipe, frame)
        self._sky = Sky(recipe, frame)
        self._far = list(layout.far())
        self._near = list(layout.near())
        self._horizon = recipe.horizon * frame.high
        self._shore_row = round(recipe.horizon * frame.height)
        self._specks = list(self._sprinkle_specks())
        self._water_from = self._shore_row if recipe.has_water else frame.height
        # The order matters: water mirrors rows that are painted already.
        self._unpainted = deque(
            frame.bands(0, self._water_from) + frame.bands(self._water_from, frame.height)
        )

    def paint_until(self, last: int) -> None:
        """Paint at least the rows up to `last`."""
        while self._unpainted and self._unpainted[0].start < last:
            self._paint(self._unpainted.popleft())

    def _paint(self, rows: range) -> None:
        if rows.start >= self._water_from:
            band = self._water(rows)
        else:
            band = self._sky.paint(rows)
            self._paint_land(band, rows, self._far)
        self._finish(band, rows)

    def _finish(self, band: F32, rows: range) -> None:
        self._paint_land(band, rows, self._near)
        for colour, cover in self._specks:
            lay(band, planes(colour), cover[rows.start : rows.stop] * np.float32(0.9 / 255.0))
        self._grade(band, rows)
        # A random rounding keeps the sky free of stripes.
        dither = unit(
            hash_grid(
                self._recipe.dice.word("dither"),
                np.arange(rows.start, rows.stop),
                np.arange(self._frame.width),
            )
        )
        levels = clamp(band) * 254.0 + dither
        self.picture[rows.start : rows.stop] = levels.astype(np.uint8).transpose(1, 2, 0)

    def _paint_land(self, band: F32, rows: range, layers: list[Layer]) -> None:
        ys = self._frame.ys(rows)
        highest = [layer.crest.min() for layer in layers if isinstance(layer, Ridge)]
        if not highest or ys[-1] < min(highest) - 0.25:
            return
        is_right = self._recipe.sun_x > 0.5
        relief = relief_of(self._frame, self._recipe.dice.word("relief"), ys, is_right)
        for layer in layers:
            if isinstance(layer, Ridge):
                paint_ridge(band, self._frame, ys, layer, relief)
            else:
                paint_trees(band, self._frame, ys, layer)

    def _water(self, rows: range) -> F32:
        """The mirror image of what is above, shaken by ripples that grow towards the viewer."""
        ys = self._frame.ys(rows)
        depth = (ys - self._horizon) / (self._frame.high - self._horizon)
        # Ripples lie flat: far ones are many and low, as perspective has it.
        lines = 26.0 * depth / (depth + 0.35)
        ripple = fractal(self._recipe.dice.word("ripples"), lines, self._frame.xs * 5.0, 4) - 0.5
        band = self._mirrored(rows, depth, ripple)
        tint = mixed(self._recipe.palette.top, self._recipe.palette.middle, 0.35)
        lay(band, planes(tint), (0.16 + 0.34 * clamp(depth.copy()))[:, None])
        self._glitter(band, depth, lines, ripple)
        return band

    def _mirrored(self, rows: range, depth: F32, ripple: F32) -> F32:
        strength = (depth * np.float32(self._frame.unit * 0.22) + 1.5)[:, None]
        below = np.arange(rows.start, rows.stop)[:, None] - self._shore_row
        row = self._shore_row - 1 - below + (ripple * strength).astype(np.int64)
        column = np.arange(self._frame.width) + (ripple * strength * 0.3).astype(np.int64)
        place: tuple[I64, I64] = (
            np.clip(np.abs(row), 0, self._shore_row - 1),
            np.clip(column, 0, self._frame.width - 1),
        )
        mirrored = self.picture[place].transpose(2, 0, 1)
        return mirrored.astype(np.float32) * (1.0 / 255.0)

    def _glitter(self, band: F32, depth: F32, lines: F32, ripple: F32) -> None:
        """The sun's path on the water, and a glint on the crests of the ripples."""
        sparks = fractal(self._recipe.dice.word("sparks"), lines * 5.0, self._frame.xs * 22.0, 2)
        away = np.abs(self._frame.xs - np.float32(self._recipe.sun_x * self._frame.wide))
        path = clamp(1.0 - away[None, :] / (0.05 + 0.16 * depth[:, None]))
        light = smooth((sparks - 0.62 + 0.22 * path + 0.3 * ripple) * 6.0) * (path * 0.85 + 0.05)
        screen(band, planes(self._recipe.palette.light), light)

    def _sprinkle_specks(self) -> Iterator[tuple[Colour, U8]]:
        """Flowers on the ground, petals or snow in the air: colours and covers."""
        frame, dice, ground = self._frame, self._recipe.dice, self._recipe.ground
        if ground == "meadow":
            field = self._horizon + (frame.high - self._horizon) * 0.62
            for index, colour in enumerate(_FLOWERS):
                salt = dice.word(f"flowers {index}")
                dim = 0.5 if self._recipe.is_night else 0.95
                tint = mixed((0.0, 0.0, 0.0), colour, dim)
                yield (
                    tint,
                    sprinkle(frame, salt, count=240, radius=0.006, top=field, bottom=frame.high),
                )
        air = {"top": 0.0, "bottom": frame.high}
        if ground == "spring":
            salt = dice.word("petals")
            yield (1.0, 0.76, 0.83), sprinkle(frame, salt, count=170, radius=0.006, **air)
        elif "snow" in self._recipe.traits or (ground == "snow" and dice.chance("snowfall", 0.6)):
            salt = dice.word("flakes")
            yield (0.96, 0.98, 1.0), sprinkle(frame, salt, count=420, radius=0.005, **air)

    def _grade(self, band: F32, rows: range) -> None:
        """Colour and contrast as vivid as the guidance asks, and darker corners."""
        vividness = self._recipe.vividness
        grey = band[0] * 0.30 + band[1] * 0.59 + band[2] * 0.11
        band -= grey
        band *= 0.5 + 1.1 * vividness
        band += grey
        clamp(band)
        curve = ramp(band, smooth(band), np.full(1, vividness * 0.7, np.float32))
        across = self._frame.xs / self._frame.wide - 0.5
        down = self._frame.ys(rows) / self._frame.high - 0.5
        corner = (down * down)[:, None] + (across * across)[None, :]
        np.multiply(curve, 1.0 - 0.42 * corner, out=band)


def _sketched(recipe: Recipe, frame: Frame) -> U8:
    coarse = int(frame.unit / _SKETCH_SIDE)
    if coarse < 2:
        return np.zeros((frame.height, frame.width, 3), np.uint8)
    small = Frame(max(1, frame.width // coarse), max(1, frame.height // coarse))
    sketch = Painting(recipe, small)
    sketch.paint_until(small.height)
    lines = np.arange(frame.height) * small.height // frame.height
    columns = np.arange(frame.width) * small.width // frame.width
    # `take` gives a contiguous array, where an index would keep the order of the small one.
    return sketch.picture.take(lines, axis=0).take(columns, axis=1)
