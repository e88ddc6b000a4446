"""Draws a visible mark, and puts pristine pixels back."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from activities.imaging.labels.mark import Floats, Mark
from activities.imaging.stills import Still

Pixels = NDArray[np.uint8]


def label_still(still: Still, mark: Mark) -> Still:
    """The image with the mark on it, which is seen where the image itself is transparent, too."""
    if still.alpha is None:
        return still.with_pixels(draw_label(still.pixels, mark))
    alpha, share = _over_transparency(still.alpha, mark)
    return still.with_pixels(draw_label(still.pixels, replace(mark, alpha=share)), alpha)


def _over_transparency(alpha: Pixels, mark: Mark) -> tuple[Pixels, Floats]:
    """The transparency of the image (height, width) below the mark, and the share that the mark
    has in each colour of its box: all of it where nothing else is seen. After T. Porter and
    T. Duff, 1984; where the image is opaque, both are as they were."""
    left, top, right, bottom = mark.box
    under = alpha[top:bottom, left:right].astype(np.float32) / np.float32(255)
    together = mark.alpha + (1 - mark.alpha) * under
    drawn = alpha.copy()
    drawn[top:bottom, left:right] = np.rint(together * 255).astype(np.uint8)
    share = np.where(under < 1, mark.alpha / np.maximum(together, 1e-6), mark.alpha)
    return drawn, share.astype(np.float32)


def draw_label(pixels: Pixels, mark: Mark) -> Pixels:
    """A copy of an image (height, width, 3) with the mark on it; only the mark's box changes.

    The one place that says how marked pixels are rounded: to the nearest, and halves to even.
    """
    left, top, right, bottom = mark.box
    drawn = pixels.copy()
    under = pixels[top:bottom, left:right].astype(np.float32)
    drawn[top:bottom, left:right] = np.rint(np.clip(mark.over(under), 0, 255)).astype(np.uint8)
    return drawn


def restore(pixels: Pixels, box_pixels: Pixels, left: int, top: int) -> Pixels:
    """A copy of an image with the pixels of a box put back as they were before it was marked.

    Raises `ValueError` where the box does not lie inside the image.
    """
    height, width = box_pixels.shape[:2]
    inside = 0 <= left <= pixels.shape[1] - width and 0 <= top <= pixels.shape[0] - height
    if not inside or box_pixels.ndim != 3 or box_pixels.shape[2] != pixels.shape[2]:
        raise ValueError("the kept pixels do not fit into the image")
    restored = pixels.copy()
    restored[top : top + height, left : left + width] = box_pixels
    return restored
