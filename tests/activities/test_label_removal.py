"""A label is drawn, taken off again by its inverse, or replaced by what was kept."""

from dataclasses import replace

import numpy as np
import pytest

from activities.imaging.labels.drawing import draw_label, restore
from activities.imaging.labels.fill import fill_hidden
from activities.imaging.labels.inverse import OPAQUE, remove_by_inverse
from activities.imaging.labels.lettering import own_profile
from activities.imaging.labels.mark import Floats, Mark
from activities.imaging.labels.presence import RESIDUAL_VISIBLE, presence, residual
from tests.activities.label_pictures import Pixels, flat, picture, psnr


def square(alpha: float, colour: float, side: int = 2) -> Mark:
    return Mark(
        left=1,
        top=1,
        alpha=np.full((side, side), alpha, np.float32),
        colour=np.full((side, side, 3), colour, np.float32),
    )


def never_called(pixels: Floats, hidden: np.ndarray) -> Floats:
    raise AssertionError("nothing is hidden here")


@pytest.mark.parametrize(
    ("alpha", "colour", "under", "marked"),
    [
        (0.5, 255, 0, 128),
        (0.5, 255, 101, 178),
        (0.5, 100, 101, 100),
        (0.25, 0, 10, 8),
        (1, 200, 7, 200),
        (0, 200, 7, 7),
    ],
)
def test_a_marked_pixel_is_rounded_to_the_nearest_and_halves_to_even(
    alpha: float, colour: float, under: int, marked: int
) -> None:
    drawn = draw_label(flat(under, 4, 4), square(alpha, colour))
    assert np.all(drawn[1:3, 1:3] == marked)


def test_only_the_marks_box_changes_and_the_given_image_never() -> None:
    pixels = picture(3)
    before = pixels.copy()
    mark = own_profile(opacity=1).mark_on(256, 256)
    drawn = draw_label(pixels, mark)
    changed = (drawn != pixels).any(axis=-1)
    left, top, right, bottom = mark.box
    assert changed[top:bottom, left:right].any()
    changed[top:bottom, left:right] = False
    assert not changed.any()
    assert np.array_equal(pixels, before)


def test_kept_pixels_go_back_bit_for_bit() -> None:
    pixels = picture(4)
    mark = own_profile(opacity=1).mark_on(256, 256)
    left, top, right, bottom = mark.box
    kept = pixels[top:bottom, left:right].copy()
    drawn = draw_label(pixels, mark)
    assert np.array_equal(restore(drawn, kept, left, top), pixels)


@pytest.mark.parametrize(("left", "top"), [(-1, 0), (0, -1), (3, 0), (0, 3)])
def test_kept_pixels_must_fit_into_the_image(left: int, top: int) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        restore(flat(0, 4, 4), flat(0, 2, 2), left, top)


def test_kept_pixels_must_be_in_colour() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        restore(flat(0, 4, 4), flat(0, 2, 2)[..., 0], 0, 0)


@pytest.mark.parametrize(("opacity", "least"), [(0.15, 54), (0.3, 52), (0.5, 50), (0.8, 44)])
def test_a_lossless_image_comes_back_as_exactly_as_rounding_allows(
    opacity: float, least: float
) -> None:
    for seed in range(6):
        pixels = picture(seed)
        mark = own_profile(opacity=opacity).mark_on(256, 256)
        removed = remove_by_inverse(draw_label(pixels, mark), mark, never_called)
        assert psnr(removed.pixels, pixels, mark) > least
        assert removed.exact.all()
        # Half a level, and that again when the result is rounded.
        limit = 0.5 / (1 - opacity) + 0.51
        assert np.abs(removed.pixels.astype(int) - pixels).max() <= limit


def test_pixels_that_the_mark_leaves_alone_stay_bit_for_bit() -> None:
    pixels = picture(5)
    mark = own_profile(opacity=0.6).mark_on(256, 256)
    removed = remove_by_inverse(draw_label(pixels, mark), mark, never_called).pixels
    left, top, right, bottom = mark.box
    same = (removed == pixels).all(axis=-1)
    assert same[top:bottom, left:right][mark.alpha == 0].all()
    same[top:bottom, left:right] = True
    assert same.all()


def test_what_is_opaque_is_made_up_and_said_to_be() -> None:
    for seed in range(3):
        pixels = picture(seed)
        mark = own_profile(opacity=1).mark_on(256, 256)
        drawn = draw_label(pixels, mark)
        removed = remove_by_inverse(drawn, mark, fill_hidden)
        assert np.array_equal(removed.exact, mark.alpha < OPAQUE)
        assert not removed.exact.all()
        assert psnr(removed.pixels, pixels, mark) > psnr(drawn, pixels, mark) + 8


def test_a_made_up_pixel_keeps_to_what_its_marked_value_allows() -> None:
    """At 0.95 a marked pixel still tells its background to within ten levels."""
    truth = 200
    mark = square(0.95, 20)

    def black(pixels: Floats, hidden: np.ndarray) -> Floats:
        return np.where(hidden[..., None], 0, pixels).astype(np.float32)

    removed = remove_by_inverse(draw_label(flat(truth, 4, 4), mark), mark, black)
    assert not removed.exact.any()
    assert np.all(np.abs(removed.pixels.astype(int) - truth) <= 20)


def test_an_impossible_pixel_is_left_to_what_is_made_up() -> None:
    """As a compression with loss leaves it: no background turns white into this grey."""
    mark = square(0.97, 255)
    marked = flat(100, 4, 4)

    def seventy(pixels: Floats, hidden: np.ndarray) -> Floats:
        return np.where(hidden[..., None], 70, pixels).astype(np.float32)

    removed = remove_by_inverse(marked, mark, seventy).pixels
    assert np.all(removed[1:3, 1:3] == 70)


def test_the_surroundings_are_known_to_what_makes_pixels_up() -> None:
    pixels = picture(6)
    mark = own_profile(opacity=1).mark_on(256, 256)
    seen: list[Pixels] = []

    def watched(window: Floats, hidden: np.ndarray) -> Floats:
        seen.append(hidden)
        return fill_hidden(window, hidden)

    remove_by_inverse(draw_label(pixels, mark), mark, watched)
    assert seen[0].shape[0] > mark.height + 20
    assert seen[0].shape[1] > mark.width + 20


@pytest.mark.parametrize("opacity", [0.3, 0.6, 0.8])
def test_nothing_is_found_or_seen_after_a_lossless_removal(opacity: float) -> None:
    for seed in range(6):
        mark = own_profile(opacity=opacity).mark_on(256, 256)
        drawn = draw_label(picture(seed), mark)
        removed = remove_by_inverse(drawn, mark, never_called).pixels
        assert abs(presence(removed, mark)) < 0.2
        assert residual(removed, mark) < RESIDUAL_VISIBLE


@pytest.mark.parametrize("level", [0, 60, 128, 255])
def test_a_removal_with_the_wrong_mark_leaves_a_visible_rest(level: int) -> None:
    mark = own_profile(opacity=0.6).mark_on(256, 256)
    drawn = draw_label(flat(level), mark)
    too_weak = replace(mark, alpha=mark.alpha * np.float32(0.8))
    beside = replace(mark, left=mark.left - 1)
    for wrong in (too_weak, beside):
        removed = remove_by_inverse(drawn, wrong, never_called).pixels
        assert residual(removed, mark) > RESIDUAL_VISIBLE
