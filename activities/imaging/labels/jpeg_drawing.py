"""Draws a mark on a JPEG file, changing no block that the mark does not touch."""

from dataclasses import replace

from activities.imaging.labels.jpeg_blocks import quantised, samples_of
from activities.imaging.labels.jpeg_coefficients import read_coefficients, write_coefficients
from activities.imaging.labels.jpeg_stream import read_stream
from activities.imaging.labels.jpeg_window import Plane, planes_around
from activities.imaging.labels.mark import Floats, Mark


def draw_on_jpeg(data: bytes, mark: Mark) -> bytes:
    """The file with the mark on it: a picture that is encoded anew as a whole loses everywhere.

    Quantisation tables, sampling and metadata stay byte for byte, and so do the coefficients of
    every block outside the MCUs that the mark reaches. A grey file stays grey, and a progressive
    one comes back sequential. Raises `UnfitImageError` for files that cannot be edited.
    """
    # What follows the end of the picture may be the same picture without the mark.
    stream = replace(read_stream(data), trailer=b"")
    coefficients, tables = read_coefficients(stream)
    planes = planes_around(stream.frame, mark, coefficients, tables)
    for whole, plane in zip(coefficients, planes, strict=True):
        whole[plane.blocks][plane.touched] = _marked(plane)[plane.touched]
    return write_coefficients(stream, coefficients)


def _marked(plane: Plane) -> Floats:
    """The coefficients of the plane with the mark on it, whole numbers."""
    return quantised(plane.kept * samples_of(plane.received) + plane.added, plane.steps)
