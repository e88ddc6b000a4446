"""The sky: its colours, the sun or the moon, stars, an aurora and clouds."""

import numpy as np

from activities.imaging.landscape.frame import Frame, lay, mixed, planes, ramp, screen, sprinkle
from activities.imaging.landscape.noise import F32, U8, clamp, fractal, profile, smooth
from activities.imaging.landscape.recipe import Recipe


class Sky:
    """Paints the sky, band by band; what spans the frame is prepared once."""

    def __init__(self, recipe: Recipe, frame: Frame) -> None:
        self._recipe = recipe
        self._frame = frame
        self._xs = frame.xs
        self._horizon = recipe.horizon * frame.high
        self._sun_x = recipe.sun_x * frame.wide
        self._sun_y = recipe.sun_y * frame.high
        self._stars = self._sprinkle_stars() if recipe.is_night else None
        self._has_aurora = "aurora" in recipe.traits or (
            recipe.is_night and recipe.dice.chance("aurora", 0.25)
        )

    def paint(self, rows: range) -> F32:
        """A fresh band, of shape (3, rows, columns) and in 0..1."""
        ys = self._frame.ys(rows)
        band = self._colours(ys)
        if self._stars is not None:
            self._paint_stars(band, self._stars[rows.start : rows.stop], ys)
        if self._has_aurora:
            self._paint_aurora(band, ys)
        distance = self._distance_to_sun(ys)
        self._paint_glow(band, distance)
        self._paint_disc(band, ys, distance)
        self._paint_clouds(band, ys, distance)
        return band

    def _colours(self, ys: F32) -> F32:
        palette = self._recipe.palette
        t = (ys / self._horizon)[None, :, None]
        high = ramp(planes(palette.top), planes(palette.middle), smooth(t / 0.7))
        column = ramp(high, planes(palette.horizon), smooth((t - 0.35) / 0.65))
        return np.repeat(column, self._frame.width, axis=2)

    def _sprinkle_stars(self) -> U8:
        salt = self._recipe.dice.word("stars")
        return sprinkle(self._frame, salt, count=520, radius=0.0022, top=0.0, bottom=self._horizon)

    def _paint_stars(self, band: F32, stars: U8, ys: F32) -> None:
        # The haze at the horizon swallows them.
        fade = clamp((1.0 - ys / self._horizon) * 2.5)[:, None]
        screen(band, planes((0.93, 0.95, 1.0)), stars.astype(np.float32) * (1.0 / 255.0) * fade)

    def _distance_to_sun(self, ys: F32) -> F32:
        """Squared, in units of length."""
        down = ys - np.float32(self._sun_y)
        across = self._xs - np.float32(self._sun_x)
        return (down * down)[:, None] + (across * across)[None, :]

    def _paint_glow(self, band: F32, distance: F32) -> None:
        light = planes(self._recipe.palette.light)
        strength = 0.28 if self._recipe.is_night else 0.5
        wide = strength / (1.0 + distance * 14.0)
        near = strength / (1.0 + distance * 160.0)
        screen(band, light, wide * wide * 1.6 + near)

    def _paint_disc(self, band: F32, ys: F32, distance: F32) -> None:
        dice = self._recipe.dice
        radius = dice.between("sun_size", 0.035, 0.055)
        inwards = np.float32(radius) - np.sqrt(distance)
        cover = clamp(inwards * self._frame.unit + 0.5)
        if not cover.any():
            return
        # Brighter than its own glow.
        disc = planes(mixed(self._recipe.palette.light, (1.0, 1.0, 1.0), 0.6))
        if self._recipe.is_night:
            seas = fractal(dice.word("moon"), ys * 30.0, self._xs * 30.0, 4)
            disc = disc * (1.0 - 0.3 * smooth((seas - 0.45) * 4.0))
        lay(band, disc, cover)

    def _paint_aurora(self, band: F32, ys: F32) -> None:
        dice = self._recipe.dice
        for curtain in range(3):
            salt = dice.word(f"aurora {curtain}")
            foot = 0.25 + 0.45 * profile(salt, self._xs * 1.7 + 3.0, 3)
            rays = profile(salt + 1, self._xs * 26.0, 3)
            reach = 0.14 + 0.34 * profile(salt + 2, self._xs * 4.0, 4)
            above: F32 = (foot[None, :] * self._horizon * 1.25 - ys[:, None]) / reach[None, :]
            fall: F32 = np.clip(1.0 - above, 0.0, 1.0)
            light: F32 = fall * fall * clamp(above * 9.0 + 1.0) * (0.15 + 0.6 * rays)
            tint = ramp(planes((0.25, 0.95, 0.6)), planes((0.6, 0.3, 0.9)), smooth(above * 1.5))
            screen(band, tint, light * light * 1.7)

    def _paint_clouds(self, band: F32, ys: F32, distance: F32) -> None:
        recipe, dice = self._recipe, self._recipe.dice
        cover = dice.between("clouds", 0.30, 0.56) + (0.14 if "cloud" in recipe.traits else 0.0)
        # Height above the horizon, bent so that clouds flatten and crowd towards it.
        height = np.clip((self._horizon - ys) / self._frame.high, 0.0, 1.0)
        lines = height / (height + 0.22) * 7.0
        across = self._xs * dice.between("cloud_width", 1.6, 2.8)
        salt = dice.word("cloud_shapes")
        density = fractal(salt, lines, across, 7)
        # The same field a little nearer to the sun: where it is thinner, light comes through.
        side = 0.12 if self._sun_x > self._frame.wide * 0.5 else -0.12
        towards_sun = fractal(salt, lines + 0.16, across + side, 4)
        alpha = smooth((density - (0.82 - cover * 0.75)) * 5.0)
        alpha *= clamp(height * 14.0)[:, None] * (0.6 if recipe.is_night else 0.92)
        lit = clamp(0.5 + (density - towards_sun) * 3.2 + 0.25 / (1.0 + distance * 9.0))
        palette = recipe.palette
        colour = ramp(planes(palette.cloud_shade), planes(palette.cloud_lit), lit)
        lay(band, colour, alpha)
        screen(band, planes(palette.light), alpha * (0.5 / (1.0 + distance * 40.0)))
