"""Pictures to put labels on: soft light, hard edges and texture, different for each seed."""

import io
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from activities.imaging.labels.mark import Mark
from activities.imaging.landscape.noise import fractal

Pixels = NDArray[np.uint8]


@lru_cache(maxsize=200)
def picture(seed: int, width: int = 256, height: int = 256) -> Pixels:
    """Of (height, width, 3) and read-only; the brightness differs much from seed to seed."""
    random = np.random.default_rng(seed)
    ys, xs = ((np.arange(side) / 40 + seed).astype(np.float32) for side in (height, width))
    light = [fractal(seed * 3 + channel, ys, xs, 5) for channel in range(3)]
    scene = np.stack(light, axis=-1) * 150 + random.uniform(-40, 120)
    for _ in range(4):
        top, left = random.integers(0, height), random.integers(0, width)
        rows, columns = random.integers(8, max(9, height // 2), 2)
        scene[top : top + rows, left : left + columns] += random.uniform(-60, 60, 3)
    scene += random.normal(0, random.uniform(0, 4), scene.shape)
    pixels: Pixels = np.clip(np.rint(scene), 0, 255).astype(np.uint8)
    pixels.setflags(write=False)
    return pixels


def flat(level: int, width: int = 256, height: int = 256) -> Pixels:
    return np.full((height, width, 3), level, np.uint8)


def jpeg(pixels: Pixels, quality: int) -> Pixels:
    """As it comes back out of a JPEG file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer))


def psnr(pixels: Pixels, truth: Pixels, mark: Mark) -> float:
    """In dB, of the pixels that the mark changes."""
    left, top, right, bottom = mark.box
    misses = pixels[top:bottom, left:right].astype(float) - truth[top:bottom, left:right]
    error = float(np.mean(misses[mark.alpha > 0.01] ** 2))
    return 10 * float(np.log10(255**2 / max(error, 1e-9)))
