"""Learns a visible mark from images that carry it, and writes a label profile.

    python -m activities.imaging.calibrate --output profile.json black.png white.png

The images are either two or more flat ones, at least a dark and a bright one, which were put
through the labeller; or ordinary pictures of one size with the same mark, ten or more of them.
Exit code 0: the profile can be used. 1: it can't, and the report says why; it is written all the
same, to be looked at. 2: there was nothing to learn from, and no profile is written.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from activities.imaging.errors import UnfitImageError
from activities.imaging.inspection import NotAnImageError, inspect_image
from activities.imaging.labels.calibration import (
    Calibration,
    CalibrationError,
    calibrate,
    profile_of,
)
from activities.imaging.labels.fill import fill_smoothly
from activities.imaging.labels.locating import Box
from activities.imaging.labels.presence import FOUND
from activities.imaging.labels.profile import Sizing
from activities.imaging.stills import open_still

_USABLE, _NOT_USABLE, _BAD_INPUT = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; the report goes to the standard output, what is wrong to the error output."""
    options = _parser().parse_args(arguments)
    try:
        samples = [_pixels_of(path) for path in options.samples]
        # Texture that is made up for each sample misleads the lines: shades alone gain 4 to 5 dB.
        calibration = calibrate(samples, fill_smoothly, options.box)
        size = samples[0].shape[1], samples[0].shape[0]
        sizing = Sizing.PIXELS if options.fixed_size else Sizing.SHARE
        profile = profile_of(calibration.mark, size, options.name, sizing)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        profile.write(options.output)
    # Only a file that can't be written is an OSError here; the message names it.
    except (CalibrationError, OSError) as error:
        sys.stderr.write(f"calibrate: {error}\n")
        return _BAD_INPUT
    any_lossy = any(path.suffix.lower() in {".jpg", ".jpeg", ".webp"} for path in options.samples)
    sys.stdout.write(_report(calibration, options.output, any_lossy))
    return _USABLE if calibration.explanation.fault is None else _NOT_USABLE


def _parser() -> argparse.ArgumentParser:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m activities.imaging.calibrate",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("samples", nargs="+", type=Path, help="PNG, JPEG or WebP, of one size")
    parser.add_argument("--output", type=_profile_path, required=True, help="NAME.json to write")
    parser.add_argument("--name", type=_name, default="calibrated", help="of the profile")
    parser.add_argument("--box", type=_box, help="left,top,width,height of the mark, if known")
    parser.add_argument(
        "--fixed-size",
        action="store_true",
        help="the mark has the same size in pixels on every image, and doesn't grow with it",
    )
    return parser


def _profile_path(text: str) -> Path:
    """Workers read no other files; and `--output samples/*.png` would write over a sample."""
    if not text.endswith(".json"):
        raise argparse.ArgumentTypeError("must be a file that ends in .json")
    return Path(text)


def _name(text: str) -> str:
    if not 1 <= len(text) <= 100:
        raise argparse.ArgumentTypeError("must have 1 to 100 characters")
    return text


def _box(text: str) -> Box:
    try:
        left, top, width, height = (int(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError("must be four whole numbers: 10,20,200,40") from error
    return left, top, left + width, top + height


def _pixels_of(path: Path) -> NDArray[np.uint8]:
    """Raises `CalibrationError` where it is no image, or none that a mark could be removed from."""
    try:
        data = path.read_bytes()
        still = open_still(data, inspect_image(data).media_type)
    except UnfitImageError as error:
        raise CalibrationError(f"{path} can't be learnt from: {error}") from error
    except NotAnImageError as error:
        raise CalibrationError(f"{path} is not an image: {error}") from error
    except OSError as error:
        raise CalibrationError(f"{path} can't be read: {error.strerror or error}") from error
    if still.alpha is not None and (still.alpha < 255).any():
        raise CalibrationError(f"{path} can't be learnt from: it is transparent in places")
    return still.pixels


def _report(calibration: Calibration, output: Path, any_lossy: bool) -> str:
    mark, explanation = calibration.mark, calibration.explanation
    scores = explanation.presences
    found = sum(score >= FOUND for score in scores)
    lines = [
        f"mark       {mark.width}x{mark.height} at {mark.left},{mark.top},"
        f" up to {mark.alpha.max():.0%} opaque",
        f"samples    off by {explanation.rms:.2f} levels (RMS) inside the mark's box;"
        f" {explanation.within_1:.1%} of the values within 1, {explanation.within_3:.1%} within 3",
        f"found      in {found} of {len(scores)}, with {min(scores):.2f} to {max(scores):.2f}"
        f" ({FOUND} is needed)",
        f"removal    a recovered pixel is off by about {explanation.removal_error:.1f} levels",
    ]
    if any_lossy:
        lines.append("note       compressed samples blur the mark: lossless ones are much better")
    fault = explanation.fault
    lines.append(f"profile    {output}")
    lines.append("usable" if fault is None else f"not usable: {fault}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
