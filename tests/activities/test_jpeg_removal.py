"""Removing a mark from JPEG files: what must get better, and who may stop it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from activities.imaging.labels.jpeg import remove_from_jpeg
from activities.imaging.labels.mark import Mark
from tests.activities.jpeg_files import decoded, encoded, marked, photograph, psnr, striped_mark


class StoppedError(Exception):
    """What a caller raises to stop the work."""


def plainly_undone(data: bytes, mark: Mark) -> NDArray[np.float32]:
    """The blending undone on decoded pixels."""
    result = decoded(data).copy()
    left, top, right, bottom = mark.box
    alpha = mark.alpha[..., None]
    box = (result[top:bottom, left:right] - alpha * mark.colour) / np.maximum(1 - alpha, 0.02)
    result[top:bottom, left:right] = np.clip(box, 0, 255)
    return result


def ignore(step: int, steps: int) -> None:
    """Let the work go on."""


@pytest.mark.parametrize(
    ("opacity", "quality", "margin"), [(0.5, 90, 7.0), (0.5, 75, 7.0), (0.8, 90, 14.0)]
)
def test_removal_is_far_better_than_undoing_the_blending(
    opacity: float, quality: int, margin: float
) -> None:
    truth, mark = photograph(96, 160), striped_mark(opacity, 37, 29)
    data = encoded(marked(truth, mark), quality=quality)
    removed = decoded(remove_from_jpeg(data, mark, ignore))
    assert psnr(removed, truth, mark) > psnr(plainly_undone(data, mark), truth, mark) + margin


def test_an_opaque_mark_is_filled_from_its_surroundings() -> None:
    truth, mark = photograph(96, 160), striped_mark(1.0, 37, 29)
    data = encoded(marked(truth, mark))
    removed = decoded(remove_from_jpeg(data, mark, ignore))
    assert psnr(removed, truth, mark) > 30
    assert psnr(decoded(data), truth, mark) < 10


@pytest.mark.parametrize("size", [(83, 151), (49, 97), (31, 90)])
def test_marks_at_the_border_of_odd_sizes_are_removed(size: tuple[int, int]) -> None:
    truth = photograph(*size)
    mark = striped_mark(0.5, size[1] - 90, size[0] - 30)
    data = encoded(marked(truth, mark))
    removed = decoded(remove_from_jpeg(data, mark, ignore))
    assert psnr(removed, truth, mark) > psnr(plainly_undone(data, mark), truth, mark) + 5


def test_each_step_is_reported_and_what_is_raised_there_stops_the_work() -> None:
    mark = striped_mark(0.5, 10, 10)
    data = encoded(marked(photograph(64, 128), mark))
    seen: list[tuple[int, int]] = []

    def stop_at_second(step: int, steps: int) -> None:
        seen.append((step, steps))
        if step == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        remove_from_jpeg(data, mark, stop_at_second)
    total = seen[0][1]
    assert seen == [(1, total), (2, total)]
    assert total > 2
    seen.clear()
    remove_from_jpeg(data, mark, lambda step, steps: seen.append((step, steps)))
    assert seen == [(step + 1, total) for step in range(total)]


def test_a_mark_outside_the_image_is_an_error() -> None:
    with pytest.raises(ValueError, match="not inside"):
        remove_from_jpeg(encoded(photograph(64, 96)), striped_mark(0.5, 10, 10), ignore)
