"""One plane of a JPEG image as samples and as the DCT coefficients of its blocks.

Samples are (height, width) in 0…255; coefficients are (block rows, block columns, 8, 8), vertical
frequency first, and not quantised unless it is said. Source: ITU-T T.81, A.3.
"""

import numpy as np

from activities.imaging.labels.jpeg_prior import DCT
from activities.imaging.labels.mark import Floats

_MIDDLE = 128
# What files of eight bits per sample can hold.
_LARGEST = 1023


def spectrum_of(samples: Floats) -> Floats:
    """The coefficients of a plane of whole blocks."""
    rows, columns = samples.shape[0] // 8, samples.shape[1] // 8
    blocks = (samples - _MIDDLE).reshape(rows, 8, columns, 8).swapaxes(1, 2)
    spectrum: Floats = (blocks.reshape(-1, 64) @ DCT.T).reshape(rows, columns, 8, 8)
    return spectrum


def samples_of(spectrum: Floats) -> Floats:
    """The plane of these coefficients."""
    rows, columns = spectrum.shape[:2]
    blocks = (spectrum.reshape(-1, 64) @ DCT).reshape(rows, columns, 8, 8).swapaxes(1, 2)
    samples: Floats = blocks.reshape(8 * rows, 8 * columns) + _MIDDLE
    return samples


def quantised(samples: Floats, steps: Floats) -> Floats:
    """What a file holds of a plane: whole numbers of these quantisation steps, (8, 8)."""
    numbers = np.rint(spectrum_of(np.clip(samples, 0, 255)) / steps)
    whole: Floats = np.clip(numbers, -_LARGEST, _LARGEST)
    return whole
