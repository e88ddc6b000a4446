"""Draws this service's own label: a text as a profile's template."""

import unicodedata
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from activities.imaging.labels.mark import Floats
from activities.imaging.labels.profile import MAX_TEMPLATE_SIDE, Anchor, LabelProfile, png_template

DEFAULT_OPACITY = 0.6
# Of the image's shorter side: what GB 45438-2025 asks of a text label's characters.
_TEXT_HEIGHT = 0.05
_MARGIN = 0.02
# Below this the letters run into each other, so a tiny image carries a relatively larger label.
_MIN_HEIGHT = 12
# The template is drawn once, this large, and scaled down to each image: larger than any mark on
# the largest image, so that it is never blown up.
_FONT_SIZE = 160
_OUTLINE = 11
_PADDING = 4
_MAX_TEXT_LENGTH = 60
_TEXT, _DARK = 255.0, 24.0
# A code point that no font has: what it draws is the font's sign for "missing".
_NO_CHARACTER = "\U0010ffff"

Font = ImageFont.FreeTypeFont


class UnreadableFontError(ValueError):
    """There is no font that text could be drawn with."""


def own_profile(
    text: str = "AI generated",
    font: Path | None = None,
    opacity: float = DEFAULT_OPACITY,
    anchor: str = Anchor.BOTTOM_RIGHT,
) -> LabelProfile:
    """White text with a dark outline, in Pillow's own font where no font file is given.

    Raises `ValueError` where the text can't be written with the font.
    """
    face = _face(font)
    _check_text(text, face)
    alpha, colour = _lettering(text, face)
    _, top, _, bottom = face.getbbox(text)
    place = Anchor(anchor)
    return LabelProfile(
        name=text,
        anchor=place,
        margin_x=_MARGIN if place.names_a_side else 0,
        margin_y=_MARGIN if place.names_an_end else 0,
        # The mark is as much higher as its outline and padding take.
        height=_TEXT_HEIGHT * alpha.shape[0] / (bottom - top),
        min_height=_MIN_HEIGHT,
        opacity=opacity,
        template=png_template(alpha, colour),
    )


def _face(path: Path | None) -> Font:
    if path is None:
        face = ImageFont.load_default(_FONT_SIZE)
        if not isinstance(face, Font):
            raise UnreadableFontError("this build of Pillow can't draw text: it has no FreeType")
        return face
    try:
        # One glyph per character: what is drawn doesn't depend on a shaping library.
        return Font(path, _FONT_SIZE, layout_engine=ImageFont.Layout.BASIC)
    except OSError as error:
        raise UnreadableFontError(f"{path} is no font that can be read: {error}") from error


def _check_text(text: str, face: Font) -> None:
    if not text.strip() or len(text) > _MAX_TEXT_LENGTH:
        raise ValueError(f"the label's text must have 1 to {_MAX_TEXT_LENGTH} characters")
    missing = bytes(face.getmask(_NO_CHARACTER))
    for character in sorted(set(text) - {" "}):
        named = f"U+{ord(character):04X} {character!r}"
        if not character.isprintable() or _needs_shaping(character):
            raise ValueError(f"the label's text can't be drawn letter by letter: {named}")
        drawn = bytes(face.getmask(character))
        if drawn == missing or not any(drawn):
            raise ValueError(f"the font has no glyph for {named}: name a font that has it")


def _needs_shaping(character: str) -> bool:
    """Whether it joins its neighbours or runs from the right."""
    right_to_left = unicodedata.bidirectional(character) in {"R", "AL", "AN"}
    return right_to_left or unicodedata.category(character).startswith("M")


def _lettering(text: str, face: Font) -> tuple[Floats, Floats]:
    """Alpha and colour of the text inside its outline, cut to what is drawn and a little more."""
    left, top, right, bottom = face.getbbox(text, stroke_width=_OUTLINE)
    size = int(right - left) + 2 * _PADDING, int(bottom - top) + 2 * _PADDING
    if max(size) > MAX_TEMPLATE_SIDE:
        raise ValueError("the label's text is too wide: it must be shorter, or its font narrower")
    at = _PADDING - left, _PADDING - top
    outline, letters = _drawn(text, face, size, at, _OUTLINE), _drawn(text, face, size, at, 0)
    colour = _DARK + (_TEXT - _DARK) * letters
    return outline, np.repeat(colour[..., None], 3, axis=-1).astype(np.float32)


def _drawn(
    text: str, face: Font, size: tuple[int, int], at: tuple[float, float], stroke: int
) -> Floats:
    """How much of each pixel the text covers, in 0…1."""
    canvas = Image.new("L", size)
    ImageDraw.Draw(canvas).text(at, text, fill=255, font=face, stroke_width=stroke)
    return np.asarray(canvas, np.float32) / np.float32(255)
