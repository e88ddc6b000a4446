"""Learns somebody else's mark from images that carry it, and says how well it was learnt."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation

from activities.imaging.labels.inverse import Fill
from activities.imaging.labels.locating import Box, Mask, box_of, flat_colours, marked_pixels
from activities.imaging.labels.mark import Floats, Mark
from activities.imaging.labels.presence import FOUND, presence
from activities.imaging.labels.profile import Anchor, LabelProfile, Sizing, png_template
from activities.imaging.labels.regression import TRUST_IN_FLATS, straight_lines, trust_in

Pixels = NDArray[np.uint8]

# What is seen around the mark's box while the background under it is made up, in pixels.
_SURROUNDINGS = 24
# Less alpha than this is noise of the estimate.
_LEAST_ALPHA = 0.02
# A removed pixel may be off by this many levels (about 32 dB) before a profile is of no use.
_MAX_ERROR = 6.5
# Of the samples, whose mark must be found with the profile that was made from them.
_MIN_FOUND_SHARE = 0.9
_LEAST_CONTRAST = 48.0
# Of all samples together inside the mark's box: the fit takes some 150 bytes for each.
_MOST_PIXELS = 10_000_000


class CalibrationError(ValueError):
    """The samples can't be calibrated from; the message is one line for a person."""


@dataclass(frozen=True)
class Explanation:
    """How well a mark explains the samples that it was learnt from, inside its box.

    `rms` is in levels; `within_1` and `within_3` are shares of all values. `removal_error` is the
    error to expect, in levels, of a pixel that is recovered with this mark.
    """

    rms: float
    within_1: float
    within_3: float
    presences: tuple[float, ...]
    removal_error: float

    @property
    def fault(self) -> str | None:
        """Why the profile is not usable; None where it is."""
        found = sum(score >= FOUND for score in self.presences)
        if found < _MIN_FOUND_SHARE * len(self.presences):
            return f"the mark is found again in {found} of {len(self.presences)} samples only"
        if not self.removal_error <= _MAX_ERROR:
            return (
                f"a recovered pixel would be off by about {self.removal_error:.1f} levels, and "
                f"{_MAX_ERROR} are acceptable: give more samples, or a black and a white one"
            )
        return None


@dataclass(frozen=True)
class Calibration:
    """A mark as it was learnt, and how well."""

    mark: Mark
    explanation: Explanation


def calibrate(samples: Sequence[Pixels], fill: Fill, box: Box | None = None) -> Calibration:
    """Learn the mark from flat probes or from pictures (height, width, 3), all of one size.

    A marked pixel is a straight line over what was under it; its slope and its height follow from
    samples whose background is known (flat probes) or made up from around the mark (pictures).
    Pictures that are smooth there count more, because what is made up is truer.
    Raises `CalibrationError`.
    """
    _check(samples)
    marked = marked_pixels(samples)
    box = box or box_of(marked)
    if box is None:
        raise CalibrationError("no mark was found that all samples have in the same place")
    windows = _Windows.of(samples, box, fill)
    hidden = windows.cut(marked)
    if not hidden.any():
        hidden[windows.box] = True
    line = windows.fitted(binary_dilation(hidden, iterations=3))
    covered = line.alpha > 2 * _LEAST_ALPHA
    if not covered.any():
        raise CalibrationError("nothing in the box is marked in all samples alike")
    # Once more, with no more made up than the mark covers.
    line = windows.fitted(binary_dilation(covered, iterations=1))
    mark = line.mark(box, windows.box)
    if not mark.alpha.any():
        raise CalibrationError("nothing in the box is marked in all samples alike")
    return Calibration(mark, _explained(samples, windows, line, mark))


def profile_of(mark: Mark, size: tuple[int, int], name: str, sizing: Sizing) -> LabelProfile:
    """A profile that puts the mark where it lies on images of this (width, height).

    On an image of another size it keeps to the nearest corner, side or centre.
    """
    unit = float(min(size)) if sizing is Sizing.SHARE else 1.0
    across, margin_x = _placed(mark.left, mark.width, size[0], ("left", "right"))
    down, margin_y = _placed(mark.top, mark.height, size[1], ("top", "bottom"))
    opacity = float(mark.alpha.max())
    return LabelProfile(
        name=name,
        anchor=Anchor("-".join(filter(None, (down, across))) or Anchor.CENTRE),
        sizing=sizing,
        margin_x=margin_x / unit,
        margin_y=margin_y / unit,
        height=mark.height / unit,
        opacity=opacity,
        made_from=size,
        template=png_template(mark.alpha / np.float32(opacity), mark.colour),
    )


def _placed(start: int, size: int, extent: int, ends: tuple[str, str]) -> tuple[str, float]:
    """The nearer end and the distance from it, or none and how far off the centre it lies."""
    off_centre = start + size / 2 - extent / 2
    if abs(off_centre) <= extent / 50:
        return "", off_centre
    after = extent - start - size
    return (ends[0], start) if start < after else (ends[1], after)


def _check(samples: Sequence[Pixels]) -> None:
    if len(samples) < 2:
        raise CalibrationError("at least two samples are needed")
    sizes = sorted({(sample.shape[1], sample.shape[0]) for sample in samples})
    if len(sizes) > 1:
        named = ", ".join(f"{width}x{height}" for width, height in sizes)
        raise CalibrationError(f"the samples must be of one size, and are of {named}")
    flats = flat_colours(samples)
    if flats is not None and np.ptp(np.stack(flats), axis=0).max() < _LEAST_CONTRAST:
        raise CalibrationError("the flat samples must differ: give a black and a white one")


@dataclass(frozen=True)
class _Line:
    """A fit for each pixel of the window: marked = (1 - alpha) * background + offset."""

    alpha: Floats
    offset: Floats
    error: Floats
    backgrounds: Floats

    def mark(self, box: Box, within: tuple[slice, slice]) -> Mark:
        alpha = np.where(self.alpha < _LEAST_ALPHA, 0, self.alpha)[within].astype(np.float32)
        colour = self.offset[within] / np.maximum(alpha, _LEAST_ALPHA)[..., None]
        colour = np.where(alpha[..., None] > 0, np.clip(colour, 0, 255), 0)
        return Mark(box[0], box[1], alpha, colour.astype(np.float32))

    def removal_error(self, within: tuple[slice, slice]) -> float:
        """Root mean square over the mark, in levels; opaque pixels too, for where nothing was
        learnt a pixel may look opaque."""
        marked = (self.alpha >= _LEAST_ALPHA)[within]
        if not marked.any():
            return 0.0
        return min(255.0, float(np.sqrt(np.mean(self.error[within][marked] ** 2))))


@dataclass(frozen=True)
class _Windows:
    """The samples around the mark's box, and the box within them."""

    pixels: Floats
    flats: list[Floats] | None
    rows: slice
    columns: slice
    box: tuple[slice, slice]
    fill: Fill

    @classmethod
    def of(cls, samples: Sequence[Pixels], box: Box, fill: Fill) -> "_Windows":
        left, top, right, bottom = box
        height, width = samples[0].shape[:2]
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            raise CalibrationError(f"the box does not lie inside the samples of {width}x{height}")
        if len(samples) * (bottom - top) * (right - left) > _MOST_PIXELS:
            raise CalibrationError("the mark's box is too large for so many samples")
        first_row, first_column = max(0, top - _SURROUNDINGS), max(0, left - _SURROUNDINGS)
        rows, columns = (
            slice(first_row, bottom + _SURROUNDINGS),
            slice(first_column, right + _SURROUNDINGS),
        )
        return cls(
            pixels=np.stack([sample[rows, columns] for sample in samples]).astype(np.float32),
            flats=flat_colours(samples),
            rows=rows,
            columns=columns,
            box=(
                slice(top - first_row, bottom - first_row),
                slice(left - first_column, right - first_column),
            ),
            fill=fill,
        )

    def cut(self, mask: Mask) -> Mask:
        """The window of a mask of whole images; nothing outside the mark's box."""
        cut = np.zeros(self.pixels[0].shape[:2], np.bool_)
        cut[self.box] = mask[self.rows, self.columns][self.box]
        return cut

    def fitted(self, hidden: Mask) -> _Line:
        """The lines for a mark that covers the hidden pixels of the box at most."""
        inside = np.zeros_like(hidden)
        inside[self.box] = hidden[self.box]
        if self.flats is not None:
            under = np.broadcast_to(np.stack(self.flats)[:, None, None], self.pixels.shape)
            trust = np.full(self.pixels.shape[:3], TRUST_IN_FLATS, np.float32)
        else:
            under = np.stack([self.fill(pixels, inside) for pixels in self.pixels])
            trust = np.stack([trust_in(pixels, inside) for pixels in self.pixels])
        alpha, offset, error = straight_lines(under, self.pixels, trust, inside)
        return _Line(np.where(inside, alpha, 0).astype(np.float32), offset, error, under)


def _explained(
    samples: Sequence[Pixels], windows: _Windows, line: _Line, mark: Mark
) -> Explanation:
    under, seen = (images[:, *windows.box] for images in (line.backgrounds, windows.pixels))
    misses = np.stack([np.rint(mark.over(pixels)) for pixels in under]) - seen
    return Explanation(
        rms=float(np.sqrt(np.mean(misses**2))),
        within_1=float(np.mean(np.abs(misses) <= 1)),
        within_3=float(np.mean(np.abs(misses) <= 3)),
        presences=tuple(presence(sample, mark) for sample in samples),
        removal_error=line.removal_error(windows.box),
    )
