"""Draws a visible mark, and puts pristine pixels back."""

import numpy as np
from numpy.typing import NDArray

from activities.imaging.labels.mark import Mark

Pixels = NDArray[np.uint8]


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
