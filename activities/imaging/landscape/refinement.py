"""From noise to a scene in steps, as denoising goes: each step starts from the one before it."""

import numpy as np

from activities.imaging.landscape.frame import Frame
from activities.imaging.landscape.noise import I64, U8, U32, fractal, hash_grid

_FIXED = 1 << 16


def noisy_canvas(frame: Frame, salt: int) -> U8:
    """The canvas before the first step: soft blotches of colour under fine noise."""
    canvas = np.empty((frame.height, frame.width, 3), np.uint8)
    columns = np.arange(frame.width)
    for rows in frame.bands(0, frame.height):
        band = canvas[rows.start : rows.stop]
        for channel in range(3):
            blotches = fractal(salt + channel, frame.ys(rows) * 24.0, frame.xs * 24.0, 2)
            band[..., channel] = blotches * 128.0
        fine = hash_grid(salt, np.arange(rows.start, rows.stop), columns)
        band += _bytes(fine) // 2
    return canvas


def refine(canvas: U8, scene: U8, salt: int, step: int, total: int) -> None:
    """Do one step, in place: pull the canvas towards the scene and lay fresh, weaker noise on it.

    Early steps see the scene only through brush strokes, pixels taken from somewhere near. How
    much of the first noise is left after the last step depends on `total` alone, and so does
    the size of the last strokes: few steps stay rough.
    """
    height, width, _ = scene.shape
    frame = Frame(width, height)
    before, after = _noise_left(step - 1, total), _noise_left(step, total)
    keep = int(_FIXED * (after / before))
    # Half a level at the least: as a dither it carries on what is finer than a level.
    fresh = max(256, int(after * 0.16 * _FIXED))
    reach = _stroke_reach(frame, step, total)
    for rows in frame.bands(0, height):
        words = hash_grid(salt + step, np.arange(rows.start, rows.stop), np.arange(width))
        goal = _strokes(scene, rows, reach, words, salt - step)
        band = canvas[rows.start : rows.stop]
        band[:] = _pulled(band, goal, keep, fresh, words)


def _noise_left(step: int, total: int) -> float:
    """How much of the first noise is left after a step: 1 at the start, the floor at the end."""
    floor = 1.0 / (1.0 + 3.0 * total)
    to_go = (total - step) / total
    return floor + (1.0 - floor) * to_go * to_go


def _stroke_reach(frame: Frame, step: int, total: int) -> int:
    """The length of a step's brush strokes in pixels; 0 is a look at the scene itself."""
    to_go = (total - step) / total
    rough = max(0.0, 1.0 / total - 1.0 / 12.0) * 0.6
    return int(frame.unit * 0.03 * (to_go * to_go * to_go + rough))


def _strokes(scene: U8, rows: range, reach: int, words: U32, salt: int) -> U8:
    if reach == 0:
        return scene[rows.start : rows.stop]
    height, width, _ = scene.shape
    lines, columns = np.arange(rows.start, rows.stop), np.arange(width)
    stroke = hash_grid(salt, lines // reach, columns // (2 * reach))
    # A stroke moves as one; each of its pixels a little further, which frays its edge.
    down = _offset(stroke, 0, 2 * reach + 1) + _offset(words, 0, reach // 2 + 1)
    across = _offset(stroke, 16, 2 * reach + 1) + _offset(words, 16, reach + 1)
    row = np.clip(lines[:, None] + down, 0, height - 1)
    column = np.clip(columns + across, 0, width - 1)
    place = row * width + column
    taken: U8 = scene.reshape(-1, 3)[place]
    return taken


def _offset(words: U32, shift: int, span: int) -> I64:
    """16 bits of each word as a whole number around 0, one of `span`."""
    sixteen = (words >> shift).astype(np.int64) & 0xFFFF
    offset: I64 = (sixteen * span >> 16) - span // 2
    return offset


def _pulled(band: U8, goal: U8, keep: int, fresh: int, words: U32) -> U8:
    """The goal, with `keep` of the band's difference from it and `fresh` noise; fixed point."""
    difference = band.astype(np.int32)
    difference -= goal
    difference *= keep
    noise = _bytes(words).astype(np.int32)
    noise -= 128
    noise *= fresh
    difference += noise
    difference += _FIXED // 2
    difference >>= 16
    difference += goal
    return np.clip(difference, 0, 255, out=difference).astype(np.uint8)


def _bytes(words: U32) -> U8:
    """Three random bytes of each word, one for each colour."""
    # Little-endian by name, so that a byte means the same on every machine.
    four = words.astype("<u4", copy=False).view(np.uint8).reshape(*words.shape, 4)
    return four[..., 1:]
