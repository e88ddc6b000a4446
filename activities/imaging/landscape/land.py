"""The land: ridges one behind the other, with trees or houses on them, fading into the air."""

from dataclasses import dataclass

import numpy as np

from activities.imaging.landscape.frame import Frame, lay, planes, ramp
from activities.imaging.landscape.noise import (
    F32,
    I64,
    clamp,
    floor_index,
    fractal,
    hash_grid,
    profile,
    randoms,
    smooth,
)
from activities.imaging.landscape.recipe import Colour

_BARK: Colour = (0.20, 0.13, 0.14)


@dataclass(frozen=True)
class Ridge:
    """One layer of land. Lengths are in units of the frame; `crest` has one for each column."""

    crest: F32
    colour: Colour
    haze: Colour
    mist: float
    relief: float
    sides: F32
    snow: Colour | None = None
    snow_line: float = 0.0
    windows: int | None = None


@dataclass(frozen=True)
class Trees:
    """A row of trees along a crest: cones, or round crowns."""

    salt: int
    crest: F32
    colour: Colour
    spacing: float
    tallest: float
    is_round: bool


def paint_ridge(band: F32, frame: Frame, ys: F32, ridge: Ridge, relief: F32) -> None:
    """Lay a ridge over a band; `relief` is the band's light and shade on rough ground."""
    below = ys[:, None] - ridge.crest[None, :]
    if below.max() * frame.unit < -1.0:
        return
    cover = clamp(below * np.float32(frame.unit) + 0.5)
    shade = 1.0 + ridge.relief * relief
    # Light grazes the side towards the sun, most of all along the crest.
    graze = ridge.sides / (1.0 + np.maximum(below, 0.0) * 22.0)
    colour = planes(ridge.colour) * (shade + graze)
    if ridge.snow is not None:
        # Snow lies high up, and its edge follows the rock.
        whiteness = smooth((ridge.snow_line - below) * 14.0 + relief * 1.3)
        colour = ramp(colour, planes(ridge.snow) * (1.0 + 0.35 * relief), whiteness)
    colour = ramp(colour, planes(ridge.haze), smooth(below * ridge.mist))
    if ridge.windows is not None:
        _light_windows(colour, frame, ys, below, ridge.windows)
    lay(band, colour, cover)


def relief_of(frame: Frame, salt: int, ys: F32, towards_right: bool) -> F32:
    """Light and shade on rough ground, about -1..1: the slope of a noise towards the sun."""
    heights = np.abs(fractal(salt, ys * 11.0, frame.xs * 13.0, 5) - 0.5)
    step = max(1, round(frame.unit * 0.006))
    sunward = np.arange(frame.width) + (step if towards_right else -step)
    moved = heights.take(np.clip(sunward, 0, frame.width - 1), axis=1)
    slope: F32 = np.clip((heights - moved) * 9.0, -1.0, 1.0)
    return slope


def sides_of(frame: Frame, crest: F32, towards_right: bool) -> F32:
    """How much light falls on each column, about -0.4..0.4: the slope of the crest."""
    step = max(1, round(frame.unit * 0.008))
    edged = np.pad(crest, step, mode="edge")
    fall = (edged[2 * step :] - edged[: -2 * step]) * np.float32(frame.unit / (2 * step))
    light: F32 = np.clip(fall * (0.45 if towards_right else -0.45), -0.4, 0.4)
    return light


def _light_windows(colour: F32, frame: Frame, ys: F32, below: F32, salt: int) -> None:
    line, column = ys * 95.0, frame.xs * 120.0
    rows, columns = floor_index(line), floor_index(column)
    is_lit = hash_grid(salt, rows, columns) < int(0.28 * 2**32)
    down, across = line - rows, column - columns
    is_lit &= ((down > 0.3) & (down < 0.8))[:, None] & ((across > 0.25) & (across < 0.75))[None, :]
    is_lit &= below > 0.008
    lay(colour, planes((1.0, 0.83, 0.5)), is_lit.astype(np.float32) * 0.85)


def paint_trees(band: F32, frame: Frame, ys: F32, trees: Trees) -> None:
    """Lay a row of trees over a band."""
    if ys[-1] < trees.crest.min() - trees.tallest or ys[0] > trees.crest.max() + trees.tallest:
        return
    grain = 8.0 / trees.tallest
    leaves = fractal(trees.salt + 2, ys * grain, frame.xs * grain, 3)
    cells = floor_index(frame.xs / np.float32(trees.spacing))
    for neighbour in (-1, 0, 1):
        down, across, scale = _around_tree(frame, ys, trees, cells + neighbour)
        if down[-1].max() < 0.0 or down[0].min() > 1.3:
            continue
        if trees.is_round:
            lay(band, planes(_BARK), clamp(_trunk(down) * scale - across + 0.5))
            # Leaves make a ragged edge.
            edge = (_crown(down) + 0.9 * (leaves - 0.5)) * scale - across
            edge[down > 0.95] = -1.0
            lay(band, planes(trees.colour) * (0.6 + 0.8 * leaves), clamp(edge + 0.5))
        else:
            cover = clamp(_cone(down) * scale - across + 0.5)
            lay(band, planes(trees.colour) * (0.8 + 0.4 * leaves), cover)


def _around_tree(frame: Frame, ys: F32, trees: Trees, index: I64) -> tuple[F32, F32, F32]:
    """Where each pixel is, seen from the tree that `index` names for its column.

    Returns how far down from the top, where the height is 1; how far across, in pixels; and half
    the height in pixels, which is the unit of a tree's width.
    """
    place = index.astype(np.float32) + 0.2 + 0.6 * randoms(trees.salt, index)
    centre = place * np.float32(trees.spacing)
    tall = (0.45 + 0.55 * randoms(trees.salt + 1, index)) * np.float32(trees.tallest)
    foot = np.clip(floor_index(centre * np.float32(frame.unit)), 0, frame.width - 1)
    down = (ys[:, None] - (trees.crest[foot] - tall)[None, :]) / tall
    across: F32 = np.abs(frame.xs - centre) * np.float32(frame.unit)
    return down, across, tall * np.float32(0.5 * frame.unit)


def _cone(down: F32) -> F32:
    """Half the width of a spruce, with the saw-tooth of its branches."""
    tooth = down * 7.0
    tooth -= np.floor(tooth)
    wide: F32 = down * (0.34 + 0.2 * tooth)
    wide[(down < 0.0) | (down > 1.3)] = -4.0
    return wide


def _crown(down: F32) -> F32:
    """Half the width of the crown of a round tree, which is widest below its middle."""
    upper = 1.0 - np.square(down * 3.2 - 1.0)
    lower = 1.0 - np.square(down * 2.7 - 1.45)
    ring: F32 = np.maximum(np.maximum(upper * 0.5, lower), 0.0)
    crown: F32 = np.sqrt(ring) - (ring == 0.0) * np.float32(2.0)
    return crown


def _trunk(down: F32) -> F32:
    return ((down > 0.5) & (down < 1.08)) * np.float32(2.08) - np.float32(2.0)


def mountain_crest(salt: int, xs: F32, base: float, tall: float, roughness: float) -> F32:
    """Pointed peaks: one minus the distance of a noise from its middle."""
    bulk = profile(salt, xs * 1.3 * roughness, 2)
    peaks = _ridged(profile(salt + 1, xs * 2.2 * roughness, 2))
    jags = _ridged(profile(salt + 2, xs * 9.0 * roughness, 5))
    crest: F32 = base - tall * (0.35 * bulk + 0.5 * peaks * peaks + 0.22 * (jags - 0.5))
    return crest


def _ridged(noise: F32) -> F32:
    peaks: F32 = 1.0 - np.abs(2.0 * noise - 1.0)
    return peaks


def hill_crest(salt: int, xs: F32, base: float, tall: float, roughness: float) -> F32:
    """Soft hills."""
    return base - tall * (profile(salt, xs * 1.6 * roughness, 2) * 1.1 - 0.1)


def dune_crest(salt: int, xs: F32, base: float, tall: float, roughness: float) -> F32:
    """Sand dunes: a long rise and a short fall."""
    place = xs * 1.1 * roughness + profile(salt, xs * 1.3, 2) * 0.9
    phase: F32 = place - np.floor(place)
    rise: F32 = np.minimum(phase / 0.72, (1.0 - phase) / 0.28)
    dune = smooth(rise * 0.85 + 0.08)
    dune *= 0.75
    dune += profile(salt + 1, xs, 2) * 0.2
    return base - tall * dune


def skyline_crest(salt: int, xs: F32, base: float, tall: float, roughness: float) -> F32:
    """Flat roofs of uneven height, some with a mast."""
    house = xs * 17.0 * roughness
    index = floor_index(house)
    height = randoms(salt, index)
    # Taken once for a house, so that its roof is flat.
    centre = profile(salt + 3, index.astype(np.float32) * np.float32(2.2 / 17.0 / roughness), 2)
    roof = tall * (0.25 + 0.75 * height * height) * (0.45 + 0.9 * centre)
    across: F32 = house - np.floor(house)
    has_mast = randoms(salt + 1, index) < 0.3
    mast = (has_mast & (np.abs(across - 0.5) < 0.03)) * np.float32(tall * 0.14)
    alley = (across > 0.94) * np.float32(0.5)
    crest: F32 = base - roof * (1.0 - alley) - mast
    return crest
