"""Hidden pixels made up from their surroundings."""

import numpy as np
import pytest
from numpy.typing import NDArray

from activities.imaging.labels.fill import MID_GREY, fill_hidden
from activities.imaging.labels.mark import Floats


def ramp(height: int, width: int) -> Floats:
    y, x = np.mgrid[:height, :width]
    return np.stack([x + y, 2 * y + 10, 200 - x], axis=-1).astype(np.float32)


def hidden_box(height: int, width: int, rows: slice, columns: slice) -> NDArray[np.bool_]:
    hidden = np.zeros((height, width), np.bool_)
    hidden[rows, columns] = True
    return hidden


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (slice(10, 20), slice(15, 40)),
        (slice(0, 6), slice(0, 9)),
        (slice(12, 30), slice(44, 50)),
        (slice(5, 6), slice(5, 6)),
    ],
)
def test_a_ramp_is_continued_through_a_hole(rows: slice, columns: slice) -> None:
    pixels, hidden = ramp(30, 50), hidden_box(30, 50, rows, columns)
    spoilt = np.where(hidden[..., None], 255, pixels).astype(np.float32)
    assert np.abs(fill_hidden(spoilt, hidden) - pixels).max() < 12


def test_a_curved_surface_is_met_closely() -> None:
    y, x = np.mgrid[:40, :60]
    pixels = (120 + 60 * np.sin(x / 14) * np.cos(y / 11))[..., None].astype(np.float32)
    hidden = hidden_box(40, 60, slice(15, 25), slice(20, 30))
    assert np.abs(fill_hidden(pixels * ~hidden[..., None], hidden) - pixels).max() < 3


def test_known_pixels_are_kept_and_the_argument_is_left_alone() -> None:
    pixels = np.random.default_rng(1).uniform(0, 255, (20, 30, 3)).astype(np.float32)
    hidden = hidden_box(20, 30, slice(5, 9), slice(5, 20))
    before = pixels.copy()
    filled = fill_hidden(pixels, hidden)
    assert np.array_equal(filled[~hidden], before[~hidden])
    assert np.array_equal(pixels, before)
    assert filled.min() >= 0
    assert filled.max() <= 255


def test_what_hides_does_not_matter() -> None:
    pixels, hidden = ramp(20, 30), hidden_box(20, 30, slice(5, 9), slice(5, 20))
    black = np.where(hidden[..., None], 0, pixels).astype(np.float32)
    white = np.where(hidden[..., None], 255, pixels).astype(np.float32)
    assert np.allclose(fill_hidden(black, hidden), fill_hidden(white, hidden), atol=0.01)


def test_nothing_hidden_changes_nothing() -> None:
    pixels = ramp(12, 17)
    assert np.array_equal(fill_hidden(pixels, np.zeros((12, 17), np.bool_)), pixels)


def test_everything_hidden_is_mid_grey() -> None:
    assert (fill_hidden(ramp(12, 17), np.ones((12, 17), np.bool_)) == MID_GREY).all()


def test_one_known_pixel_spreads() -> None:
    pixels, hidden = np.full((9, 11, 3), 80, np.float32), np.ones((9, 11), np.bool_)
    hidden[4, 5] = False
    assert np.abs(fill_hidden(pixels, hidden) - 80).max() < 1


def test_a_very_large_hole_is_filled_in_bounded_steps() -> None:
    pixels = ramp(301, 333)
    hidden = hidden_box(301, 333, slice(20, 281), slice(20, 313))
    filled = fill_hidden(np.where(hidden[..., None], 0, pixels).astype(np.float32), hidden)
    assert np.array_equal(filled[~hidden], pixels[~hidden])
    inside = np.abs(np.clip(pixels, 0, 255) - filled)[hidden]
    assert inside.mean() < 20
