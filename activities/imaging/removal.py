"""Removing a visible label, by the most honest way that the image allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from activities.imaging.errors import UnfitImageError
from activities.imaging.labels.drawing import restore
from activities.imaging.labels.fill import fill_hidden
from activities.imaging.labels.inverse import remove_by_inverse
from activities.imaging.labels.jpeg import remove_from_jpeg
from activities.imaging.labels.mark import Mark
from activities.imaging.labels.presence import FOUND, RESIDUAL_VISIBLE, presence, residual
from activities.imaging.labels.profile import LabelProfile
from activities.imaging.provenance.embedding import carry_provenance
from activities.imaging.stills import Pixels, Still, open_still, pixels_of
from activities.models import RemovedLabel

OWN_LABEL = "own"
_NOT_KEPT = "what was kept from before its label is not of this image"

OnStep = Callable[[int, int], None]


class LabelNotFoundError(Exception):
    """None of the known labels is on the image, which is left as it is."""


@dataclass(frozen=True)
class Pristine:
    """What the service's own label covers: the box, as a PNG, or the whole file where it is lossy.

    `box` is left, top, right, bottom in pixels.
    """

    box: tuple[int, int, int, int]
    file: bytes


@dataclass(frozen=True)
class CleanCopy:
    """The image without its label, with all that its file said, and how that was done."""

    data: bytes
    removed: RemovedLabel


def restore_own(data: bytes, media_type: str, pristine: Pristine) -> CleanCopy:
    """Put back what the service's own label covers: bit-exact, at any opacity.

    Raises `LabelNotFoundError` where the image already is as it was before the label, and
    `UnfitImageError` where what was kept is not of this image and this box.
    """
    still = open_still(data, media_type)
    if still.is_lossless:
        clean = _with_kept_box(still, pristine)
    else:
        clean = pristine.file
        kept = open_still(clean, media_type).pixels
        if kept.shape != still.pixels.shape:
            raise UnfitImageError(_NOT_KEPT)
        if np.array_equal(kept, still.pixels):
            raise LabelNotFoundError
    removed = RemovedLabel(profile=OWN_LABEL, method="pristine", residual=0.0, is_clean=True)
    return CleanCopy(carry_provenance(data, clean), removed)


def _with_kept_box(still: Still, pristine: Pristine) -> bytes:
    kept, (left, top, right, bottom) = pixels_of(pristine.file), pristine.box
    if kept.shape[:2] != (bottom - top, right - left):
        raise UnfitImageError(_NOT_KEPT)
    alpha = _transparency(still)
    try:
        pixels = restore(still.pixels, kept[..., :3], left, top)
        if kept.shape[2] == 4:
            alpha = restore(alpha[..., None], kept[..., 3:], left, top)[..., 0]
    except ValueError as error:
        raise UnfitImageError(_NOT_KEPT) from error
    if np.array_equal(pixels, still.pixels) and np.array_equal(alpha, _transparency(still)):
        raise LabelNotFoundError
    is_opaque = still.alpha is None and bool((alpha == 255).all())
    return still.with_pixels(pixels, None if is_opaque else alpha).to_bytes()


def _transparency(still: Still) -> Pixels:
    """Also of a file that says nothing of it, since all of it is opaque."""
    if still.alpha is not None:
        return still.alpha
    return np.full(still.pixels.shape[:2], 255, np.uint8)


def remove_label(
    data: bytes, media_type: str, profiles: Sequence[LabelProfile], on_step: OnStep
) -> CleanCopy:
    """Find which of the labels the image carries, compute what is below them, and look again.

    Every pixel outside the labels' boxes stays as it is. `on_step` is told how many steps are done,
    and may end the work by raising. Raises `LabelNotFoundError` and `UnfitImageError`.
    """
    still = open_still(data, media_type)
    profile, mark = _found(still, profiles)
    _refuse_transparent(still, mark)
    clean = _without(data, still, mark, on_step)
    left = residual(open_still(clean, media_type).pixels, mark)
    removed = RemovedLabel(
        profile=profile.name,
        method="inverse" if still.is_lossless else "jpeg",
        residual=left,
        is_clean=left < RESIDUAL_VISIBLE,
    )
    others = [other for other in profiles if other is not profile]
    return without_others(CleanCopy(clean, removed), media_type, others, on_step)


def without_others(
    copy: CleanCopy, media_type: str, profiles: Sequence[LabelProfile], on_step: OnStep
) -> CleanCopy:
    """The copy without the labels that it still carries: a provider's lies below the service's own.

    It tells of the label of which the most is left, so that none that is seen is called clean.
    """
    if not profiles:
        return copy
    try:
        further = remove_label(copy.data, media_type, profiles, on_step)
    except LabelNotFoundError:
        return copy
    removed = max(further.removed, copy.removed, key=lambda label: label.residual)
    return CleanCopy(further.data, removed)


def _found(still: Still, profiles: Sequence[LabelProfile]) -> tuple[LabelProfile, Mark]:
    height, width = still.pixels.shape[:2]
    marks = [(profile, profile.mark_on(width, height)) for profile in profiles]
    seen = [(presence(still.pixels, mark), profile, mark) for profile, mark in marks]
    best = max(seen, key=lambda one: one[0], default=None)
    if best is None or best[0] < FOUND:
        raise LabelNotFoundError
    return best[1], best[2]


def _refuse_transparent(still: Still, mark: Mark) -> None:
    """Whether a provider's mark covers transparency, or takes part in it, nobody knows."""
    left, top, right, bottom = mark.box
    if (_transparency(still)[top:bottom, left:right][mark.alpha > 0] < 255).any():
        raise UnfitImageError("an image that is transparent below its label is not supported")


def _without(data: bytes, still: Still, mark: Mark, on_step: OnStep) -> bytes:
    if not still.is_lossless:
        return remove_from_jpeg(data, mark, on_step)
    clean = remove_by_inverse(still.pixels, mark, fill_hidden)
    on_step(1, 1)
    return carry_provenance(data, still.with_pixels(clean.pixels).to_bytes())
