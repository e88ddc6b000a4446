"""The quantised DCT coefficients of a JPEG file, in and out, through libjpeg.

jpeglib's public functions write temporary files and keep the metadata of the last file in a global
variable; the two calls used here do neither, and are safe in threads. They are not public, hence
the exact version in the project's dependencies. Files are checked, and stripped of metadata, first.
"""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jpeglib._bind import CJpegLib  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import NDArray

from activities.imaging.errors import UnfitImageError
from activities.imaging.labels.jpeg_stream import Frame, Stream, read_stream

Coefficients: TypeAlias = NDArray[np.int16]
"""Of one plane: (block rows, blocks in a row, 8, 8), quantised, vertical frequency first."""

Table: TypeAlias = NDArray[np.uint16]
"""Quantisation steps, (8, 8), vertical frequency first."""


def read_coefficients(stream: Stream) -> tuple[list[Coefficients], list[Table]]:
    """Coefficients and quantisation table of each component, in the file's order.

    Raises UnfitImageError where libjpeg gives up.
    """
    planes = [np.zeros((*shape, 8, 8), np.int16) for shape in _shapes(stream.frame)]
    tables = np.zeros((4, 8, 8), np.uint16)
    numbers = np.zeros(4, np.int16)
    with _as_path(stream.bare()) as path:
        try:
            CJpegLib.read_jpeg_dct(path, *_pointers(planes), _pointer(tables), _pointer(numbers))
        except OSError as error:
            raise UnfitImageError("The JPEG image is damaged.") from error
    return planes, [tables[component.table] for component in stream.frame.components]


def write_coefficients(stream: Stream, planes: list[Coefficients]) -> bytes:
    """The file with these coefficients instead of its own; everything else as in the stream.

    Raises UnfitImageError where libjpeg gives up.
    """
    contiguous = [np.ascontiguousarray(plane, np.int16) for plane in planes]
    with _as_path(stream.bare()) as source, _as_path(b"") as target:
        _write(stream.frame, contiguous, source, target)
        written = read_stream(Path(target).read_bytes())
    return stream.with_scan_of(written)


def _write(frame: Frame, planes: list[Coefficients], source: str, target: str) -> None:
    """Write the file `target` with these coefficients and the parameters of `source`.

    Raises UnfitImageError where libjpeg gives up: damage can make coefficients that no encoder
    would, and that cannot be coded.
    """
    try:
        CJpegLib.write_jpeg_dct(
            source,
            target,
            *_pointers(planes),
            image_dims=(ctypes.c_int * 2)(frame.height, frame.width),
            block_dims=None,
            in_color_space=3 if len(planes) == 3 else 1,
            in_components=-1,
            samp_factor=None,
            qt=None,
            quality=-1,
            quant_tbl_no=None,
            num_markers=0,
            marker_types=None,
            marker_lengths=None,
            markers=None,
            flags=["+OPTIMIZE_CODING"],
        )
    except OSError as error:
        raise UnfitImageError("The JPEG image is damaged.") from error


def _shapes(frame: Frame) -> list[tuple[int, int]]:
    """Rows and columns of blocks of each component, as ITU-T T.81 A.1.1 counts them."""
    return [
        (
            -(-_ceil(frame.height * c.down, frame.down) // 8),
            -(-_ceil(frame.width * c.across, frame.across) // 8),
        )
        for c in frame.components
    ]


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _pointer(array: NDArray[np.int16] | NDArray[np.uint16]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _pointers(planes: list[Coefficients]) -> list[ctypes.c_void_p | None]:
    """Four of them, as libjpeg's wrapper wants: absent planes are None."""
    return [*map(_pointer, planes), *[None] * (4 - len(planes))]


@contextmanager
def _as_path(content: bytes) -> Iterator[str]:
    """A path that holds the content: in memory where the system can, so that a killed process
    leaves no picture behind; else in a temporary folder."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("jpeg"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "image.jpg")
            path.write_bytes(content)
            yield str(path)
