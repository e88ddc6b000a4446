"""Removes a mark from a JPEG file, changing no block that the mark does not touch."""

from collections.abc import Callable
from io import BytesIO

import numpy as np
from PIL import Image
from threadpoolctl import threadpool_limits

from activities.imaging.errors import UnfitImageError
from activities.imaging.labels.jpeg_coefficients import read_coefficients, write_coefficients
from activities.imaging.labels.jpeg_restore import STEPS, Restoration
from activities.imaging.labels.jpeg_stream import Stream, read_stream
from activities.imaging.labels.jpeg_window import Plane, planes_around
from activities.imaging.labels.mark import Mark


def remove_from_jpeg(data: bytes, mark: Mark, on_step: Callable[[int, int], None]) -> bytes:
    """The file without the mark.

    The file must be the first JPEG encode since the mark was drawn. Quantisation tables, sampling
    and metadata stay byte for byte, and so do the coefficients of every block outside the MCUs
    that the mark reaches; where chroma is subsampled, decoders blend those MCUs into one pixel
    around them. A progressive file comes back sequential.

    `on_step(step, steps)` is called after each step, 1…steps; what it raises passes through, so
    that a caller can stop. Raises `UnfitImageError` for files that cannot be edited, and
    `ValueError` for a mark outside the image.
    """
    stream = read_stream(data)
    _refuse_undecodable(data, stream)
    _check_inside(mark, stream)
    coefficients, tables = read_coefficients(stream)
    planes = planes_around(stream.frame, mark, coefficients, tables)
    # The matrices are small: BLAS's threads would wait for each other by spinning, at several times
    # the cost of the work itself, and more where other jobs run.
    with threadpool_limits(limits=1, user_api="blas"):
        restored = _restored(planes, on_step)
    for whole, plane, found in zip(coefficients, planes, restored, strict=True):
        whole[plane.blocks][plane.touched] = found.quantised()[plane.touched]
    return write_coefficients(stream, coefficients)


def _restored(planes: list[Plane], on_step: Callable[[int, int], None]) -> list[Restoration]:
    restorations = [Restoration(plane) for plane in planes]
    for number in range(STEPS):
        for restoration in restorations:
            restoration.step(number)
        on_step(number + 1, STEPS)
    for restoration in restorations:
        restoration.finish()
    return restorations


def _refuse_undecodable(data: bytes, stream: Stream) -> None:
    """Decode once: Pillow's libjpeg is current and strict, the coefficient reader's is neither."""
    try:
        with Image.open(BytesIO(data), formats=("JPEG",)) as image:
            image.load()
            size = image.size
    except (OSError, SyntaxError, ValueError) as error:
        raise UnfitImageError("The JPEG image is damaged.") from error
    if size != (stream.frame.width, stream.frame.height):
        raise UnfitImageError("The JPEG image is not of the size that it states.")


def _check_inside(mark: Mark, stream: Stream) -> None:
    left, top, right, bottom = mark.box
    inside = 0 <= left < right <= stream.frame.width and 0 <= top < bottom <= stream.frame.height
    if not inside or not np.isfinite(mark.alpha).all():
        raise ValueError(f"the mark's box {mark.box} is not inside the image")
