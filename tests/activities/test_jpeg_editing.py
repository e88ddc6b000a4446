"""Drawing a mark on JPEG files and removing one: all that neither of them may touch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from activities.imaging.labels.drawing import draw_label
from activities.imaging.labels.jpeg import remove_from_jpeg
from activities.imaging.labels.jpeg_coefficients import read_coefficients
from activities.imaging.labels.jpeg_drawing import draw_on_jpeg
from activities.imaging.labels.jpeg_stream import read_stream
from activities.imaging.labels.mark import Mark
from tests.activities.jpeg_files import (
    ENCODINGS,
    coefficients_of,
    decoded,
    encoded,
    marked,
    photograph,
    psnr,
    striped_mark,
    touched_blocks,
)

EDITS: dict[str, Callable[[bytes, Mark], bytes]] = {
    "drawn": draw_on_jpeg,
    "removed": lambda data, mark: remove_from_jpeg(data, mark, lambda *_: None),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("left_top", [(0, 0), (42, 30), (61, 53)])
def test_only_blocks_under_the_mark_change(
    encoding: str, left_top: tuple[int, int], edit: str
) -> None:
    truth, mark = photograph(83, 151), striped_mark(0.5, *left_top)
    data = ENCODINGS[encoding](marked(truth, mark))
    before, after = coefficients_of(data), coefficients_of(EDITS[edit](data, mark))
    for plane, (old, new) in enumerate(zip(before, after, strict=True)):
        touched = touched_blocks(plane, mark, read_stream(data), old.shape)
        assert np.array_equal(old[~touched], new[~touched])
        assert not np.array_equal(old[touched], new[touched])


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_pixels_away_from_the_mark_decode_the_same(encoding: str, edit: str) -> None:
    truth, mark = photograph(83, 151), striped_mark(0.5, 42, 30)
    data = ENCODINGS[encoding](marked(truth, mark))
    changed = (decoded(EDITS[edit](data, mark)) != decoded(data)).any(axis=-1)
    # MCUs are 8 or 16 pixels; where chroma is subsampled, decoders blend one pixel across.
    blended = encoding in {"half chroma", "quarter chroma", "progressive", "restart markers"}
    blended = blended or encoding == "optimised"
    wide = 16 if blended else 8
    high = 16 if blended and encoding != "half chroma" else 8
    left, top, right, bottom = mark.box
    ring = int(blended)
    inside = np.zeros_like(changed)
    inside[
        top // high * high - ring : -(-bottom // high) * high + ring,
        left // wide * wide - ring : -(-right // wide) * wide + ring,
    ] = True
    assert changed.any()
    assert not changed[~inside].any()


@pytest.mark.parametrize("edit", EDITS)
def test_tables_sampling_and_metadata_stay_byte_for_byte(edit: str) -> None:
    exif = Image.Exif()
    exif[0x010E] = "a picture"
    options: dict[str, Any] = {
        "exif": exif.tobytes(),
        "icc_profile": b"profile" * 40,
        "comment": b"note",
    }
    mark = striped_mark(0.5, 42, 30)
    data = encoded(marked(photograph(96, 160), mark), quality=83, **options)
    before, after = read_stream(data), read_stream(EDITS[edit](data, mark))
    assert [s for s in after.segments if s.is_metadata] == [
        s for s in before.segments if s.is_metadata
    ]
    assert len([s for s in after.segments if s.is_metadata]) >= 4
    assert after.frame == before.frame
    tables = read_coefficients(before)[1], read_coefficients(after)[1]
    assert np.array_equal(*tables)


@pytest.mark.parametrize("edit", EDITS)
def test_an_invisible_mark_changes_no_coefficient(edit: str) -> None:
    data = encoded(photograph(64, 128))
    edited = EDITS[edit](data, striped_mark(0.0, 10, 10))
    for old, new in zip(coefficients_of(data), coefficients_of(edited), strict=True):
        assert np.array_equal(old, new)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("opacity", [0.3, 1.0])
def test_mark_is_drawn_as_well_as_by_encoding_the_whole_picture_anew(
    encoding: str, opacity: float
) -> None:
    mark = striped_mark(opacity, 61, 53)
    data = ENCODINGS[encoding](photograph(83, 151))
    wanted = draw_label(decoded(data).astype(np.uint8), mark)
    drawn = decoded(draw_on_jpeg(data, mark))
    assert psnr(drawn, wanted, mark) > psnr(decoded(ENCODINGS[encoding](wanted)), wanted, mark) - 1


def test_what_follows_the_picture_stays_where_a_mark_is_removed_and_goes_where_one_is_drawn() -> (
    None
):
    data = encoded(photograph(96, 160)) + b"the same picture, unmarked"
    mark = striped_mark(0.5, 42, 30)
    assert EDITS["removed"](data, mark).endswith(b"\xff\xd9the same picture, unmarked")
    assert EDITS["drawn"](data, mark).endswith(b"\xff\xd9")
