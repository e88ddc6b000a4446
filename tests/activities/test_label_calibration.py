"""A mark is learnt from images that carry it."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pytest

from activities.imaging.labels.calibration import (
    Calibration,
    CalibrationError,
    calibrate,
    profile_of,
)
from activities.imaging.labels.drawing import draw_label
from activities.imaging.labels.fill import fill_hidden, fill_smoothly
from activities.imaging.labels.inverse import remove_by_inverse
from activities.imaging.labels.lettering import own_profile
from activities.imaging.labels.locating import Box
from activities.imaging.labels.mark import Floats, Mark
from activities.imaging.labels.profile import Anchor, LabelProfile, Sizing
from activities.imaging.labels.regression import straight_lines, trust_in
from activities.imaging.removal import remove_label
from activities.imaging.stills import encode_png, pixels_of
from tests.activities.label_pictures import Pixels, flat, jpeg, picture, psnr

WIDTH, HEIGHT = 240, 200
SIZE = WIDTH, HEIGHT


@lru_cache(maxsize=10)
def true_mark(opacity: float, anchor: str = "bottom-right") -> Mark:
    return own_profile("AI made", opacity=opacity, anchor=anchor).mark_on(WIDTH, HEIGHT)


def probes(mark: Mark, *levels: int) -> list[Pixels]:
    return [draw_label(flat(level, WIDTH, HEIGHT), mark) for level in levels]


def pictures(mark: Mark, count: int) -> list[Pixels]:
    return [draw_label(picture(seed, WIDTH, HEIGHT), mark) for seed in range(count)]


def calibrated(samples: Sequence[Pixels], box: Box | None = None) -> Calibration:
    return calibrate(samples, fill_smoothly, box)


def learnt(samples: Sequence[Pixels]) -> LabelProfile:
    return profile_of(calibrated(samples).mark, SIZE, "learnt", Sizing.SHARE)


def whole(mark: Mark, plane: Floats) -> Floats:
    """A plane of the mark's box in the whole image, zero elsewhere."""
    canvas = np.zeros((HEIGHT, WIDTH, *plane.shape[2:]), np.float32)
    left, top, right, bottom = mark.box
    canvas[top:bottom, left:right] = plane
    return canvas


def removal_psnr(profile: LabelProfile, mark: Mark) -> float:
    """On pictures that the profile was not learnt from; the worst of them."""
    found = profile.mark_on(WIDTH, HEIGHT)
    truths = [picture(seed, WIDTH, HEIGHT) for seed in range(100, 104)]
    return min(
        psnr(remove_by_inverse(draw_label(truth, mark), found, fill_hidden).pixels, truth, mark)
        for truth in truths
    )


@pytest.mark.parametrize(("opacity", "least"), [(0.3, 49), (0.5, 49), (0.8, 41)])
def test_two_flat_probes_tell_the_mark_as_well_as_rounding_allows(
    opacity: float, least: float
) -> None:
    mark = true_mark(opacity)
    calibration = calibrated(probes(mark, 0, 255))
    found = calibration.mark
    alpha_error = whole(found, found.alpha) - whole(mark, mark.alpha)
    assert np.abs(alpha_error).max() < 0.03
    strong = whole(mark, mark.alpha) > 0.2
    colour_error = whole(found, found.colour) - whole(mark, mark.colour)
    assert np.sqrt(np.mean(colour_error[strong] ** 2)) < 3
    assert calibration.explanation.fault is None
    assert calibration.explanation.rms < 1
    assert removal_psnr(learnt(probes(mark, 0, 255)), mark) > least


def test_probes_need_not_be_black_and_white() -> None:
    mark = true_mark(0.5)
    assert removal_psnr(learnt(probes(mark, 30, 128, 240)), mark) > 48


def test_ordinary_pictures_tell_the_mark_too() -> None:
    mark = true_mark(0.5)
    samples = pictures(mark, 12)
    calibration = calibrated(samples)
    explanation = calibration.explanation
    assert explanation.fault is None
    assert len(explanation.presences) == 12
    assert min(explanation.presences) > 0.5
    assert 0 < explanation.within_1 < explanation.within_3 < 1
    assert removal_psnr(learnt(samples), mark) > 39.5


def test_smooth_surroundings_are_trusted_more_than_rough_ones() -> None:
    hidden = np.zeros((40, 40), np.bool_)
    hidden[15:25, 15:25] = True
    rough = np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype(np.float32)
    smooth = flat(90, 40, 40).astype(np.float32)
    assert trust_in(smooth, hidden).min() > 100 * trust_in(rough, hidden).max()


def test_a_sample_that_is_not_trusted_hardly_moves_the_line() -> None:
    under = np.array([0, 100, 200, 50], np.float32)[:, None, None, None] * np.ones((1, 2, 2, 3))
    marked = under * 0.6 + 40
    marked[3] = 255
    trust = np.array([1, 1, 1, 1e-4])[:, None, None] * np.ones((1, 2, 2))
    all_hidden = np.ones((2, 2), np.bool_)
    alpha, offset, _ = straight_lines(
        under.astype(np.float32), marked.astype(np.float32), trust.astype(np.float32), all_hidden
    )
    assert alpha == pytest.approx(np.full((2, 2), 0.4), abs=0.01)
    assert offset == pytest.approx(np.full((2, 2, 3), 40), abs=0.5)


@pytest.mark.parametrize("anchor", ["top-left", "bottom", "right", "centre"])
def test_the_place_is_found_and_kept(anchor: str) -> None:
    mark = true_mark(0.6, anchor)
    profile = learnt(pictures(mark, 8))
    assert profile.anchor == Anchor(anchor)
    assert profile.made_from == SIZE
    left, top, right, bottom = profile.mark_on(WIDTH, HEIGHT).box
    assert np.abs(np.subtract((left, top, right, bottom), mark.box)).max() <= 5


def test_a_learnt_mark_grows_with_the_image_or_keeps_its_pixels() -> None:
    mark = calibrated(probes(true_mark(0.5), 0, 255)).mark
    growing, fixed = (profile_of(mark, SIZE, "x", sizing) for sizing in Sizing)
    for profile in (growing, fixed):
        assert profile.mark_on(WIDTH, HEIGHT).box == mark.box
    twice, same = (profile.mark_on(2 * WIDTH, 2 * HEIGHT) for profile in (growing, fixed))
    assert twice.box == tuple(2 * side for side in mark.box)
    assert (same.width, same.height) == (mark.width, mark.height)
    assert 2 * WIDTH - same.box[2] == WIDTH - mark.box[2]


def test_of_profiles_for_several_sizes_the_one_that_fits_is_taken() -> None:
    label, sizes = own_profile("AI made", opacity=0.5), ((240, 200), (360, 300), (420, 350))
    profiles = []
    for size in sizes:
        mark = label.mark_on(*size)
        samples = [draw_label(flat(level, *size), mark) for level in (0, 255)]
        profiles.append(profile_of(calibrated(samples).mark, size, str(size), Sizing.SHARE))
    for size in sizes:
        mark, truth = label.mark_on(*size), picture(7, *size)
        copy = remove_label(
            encode_png(draw_label(truth, mark)), "image/png", profiles, lambda step, total: None
        )
        assert (copy.removed.profile, copy.removed.is_clean) == (str(size), True)
        assert psnr(pixels_of(copy.data), truth, mark) > 47


def test_a_given_box_is_kept_to() -> None:
    mark = true_mark(0.5)
    left, top, right, bottom = mark.box
    box = left - 3, top - 2, right + 1, bottom + 2
    assert calibrated(pictures(mark, 6), box).mark.box == box
    assert calibrated(probes(mark, 0, 255), box).mark.box == box


def test_too_few_pictures_are_called_not_usable() -> None:
    fault = calibrated(pictures(true_mark(0.5), 3), true_mark(0.5).box).explanation.fault
    assert fault is not None
    assert "give more samples" in fault


def test_marks_that_differ_from_sample_to_sample_are_called_not_usable() -> None:
    """Half of the samples carry the mark, the others don't."""
    mark = true_mark(0.9)
    samples = pictures(mark, 6) + [picture(seed, WIDTH, HEIGHT) for seed in range(20, 26)]
    fault = calibrated(samples, mark.box).explanation.fault
    assert fault is not None
    assert "found again in" in fault


def test_one_picture_many_times_tells_nothing() -> None:
    same = [draw_label(picture(1, 64, 64), own_profile().mark_on(64, 64))] * 6
    fault = calibrated(same).explanation.fault
    assert fault is not None
    assert "give more samples" in fault


def test_compressed_probes_tell_the_mark_roughly() -> None:
    mark = true_mark(0.5)
    samples = [jpeg(probe, 90) for probe in probes(mark, 0, 255)]
    assert removal_psnr(learnt(samples), mark) > 31


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (lambda: [], "at least two"),
        (lambda: [flat(0)], "at least two"),
        (lambda: [flat(0, 64, 64), flat(255, 64, 65)], "of one size, and are of 64x64, 64x65"),
        (lambda: [flat(0), flat(255)], "no mark was found"),
        (lambda: probes(true_mark(0.5), 0, 20), "must differ"),
        (lambda: [picture(seed) for seed in range(6)], "no mark was found"),
        (lambda: [picture(seed) for seed in range(2)], "no mark was found"),
    ],
)
def test_what_can_not_be_learnt_from_is_refused(
    samples: Callable[[], list[Pixels]], message: str
) -> None:
    with pytest.raises(CalibrationError, match=message):
        calibrated(samples())


@pytest.mark.parametrize("box", [(-1, 0, 20, 20), (0, 0, 241, 20), (5, 5, 5, 20), (0, 190, 9, 201)])
def test_a_box_outside_the_samples_is_refused(box: Box) -> None:
    with pytest.raises(CalibrationError, match="does not lie inside the samples of 240x200"):
        calibrated(probes(true_mark(0.5), 0, 255), box)


def test_more_than_fits_into_the_memory_is_refused() -> None:
    sample = flat(0, 512, 512)
    sample[:256] = 200
    with pytest.raises(CalibrationError, match="too large for so many samples"):
        calibrated([sample] * 40, (0, 0, 512, 512))


def test_a_box_without_a_mark_is_refused() -> None:
    with pytest.raises(CalibrationError, match="nothing in the box"):
        calibrated(probes(true_mark(0.5), 0, 255), (0, 0, 40, 40))
