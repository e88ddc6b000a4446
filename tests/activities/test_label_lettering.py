"""The service's own label: a text, drawn with a font."""

from pathlib import Path

import numpy as np
import pytest
from PIL import ImageFont

from activities.imaging.labels.drawing import draw_label
from activities.imaging.labels.lettering import own_profile
from tests.activities.label_pictures import flat


@pytest.mark.parametrize("level", [0, 128, 255])
def test_the_text_stands_out_from_every_background(level: int) -> None:
    """By its white letters on the dark, by their outline on the bright."""
    label = own_profile()
    background = flat(level, 1024, 1024)
    mark = label.mark_on(1024, 1024)
    change = np.abs(draw_label(background, mark).astype(int) - background).max(axis=-1)
    assert np.mean(change[mark.top :, mark.left :] > 50) > 0.1


def test_letters_are_white_and_their_outline_is_dark() -> None:
    mark = own_profile(opacity=1).mark_on(1024, 1024)
    opaque = mark.alpha > 0.99
    brightness = mark.colour.mean(axis=-1)[opaque]
    assert np.mean(brightness > 250) > 0.2
    assert np.mean(brightness < 30) > 0.2
    assert np.mean((brightness > 60) & (brightness < 200)) < 0.15


@pytest.mark.parametrize("text", ["AI generated", "KI-generiert", "AI", "x"])
@pytest.mark.parametrize("size", [(1024, 1536), (2048, 1024)])
def test_the_letters_are_as_high_as_a_twentieth_of_the_shorter_side(
    text: str, size: tuple[int, int]
) -> None:
    """The letters, whose white is inside the outline, and not the outline around them."""
    mark = own_profile(text).mark_on(*size)
    rows = np.flatnonzero((mark.colour.mean(axis=-1) > 140).any(axis=1))
    assert 50 <= rows.max() - rows.min() + 1 <= 53


def test_a_label_may_stand_in_the_middle() -> None:
    left, top, right, bottom = own_profile(anchor="centre").mark_on(1024, 1024).box
    assert abs(left + right - 1024) <= 1
    assert abs(top + bottom - 1024) <= 1
    assert own_profile(anchor="bottom").mark_on(1024, 1024).box[3] == 1004


def test_texts_differ_and_so_do_their_marks() -> None:
    short, long = (own_profile(text).mark_on(1024, 1024) for text in ("AI", "Made by a machine"))
    assert short.width < long.width


@pytest.mark.parametrize("text", ["AI 生成", "生成", "AI \N{HEAVY CHECK MARK}"])
def test_characters_that_the_font_lacks_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no glyph for U\+[0-9A-F]{4}"):
        own_profile(text)


@pytest.mark.parametrize(
    "text", ["two\nlines", "a\tb", "a\N{ZERO WIDTH JOINER}b", "نص", "e\u0301", "\ue123"]
)
def test_what_can_not_be_drawn_letter_by_letter_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="letter by letter"):
        own_profile(text)


@pytest.mark.parametrize("text", ["", "  ", "x" * 61])
def test_a_text_has_a_length(text: str) -> None:
    with pytest.raises(ValueError, match="1 to 60 characters"):
        own_profile(text)


def test_a_font_file_draws_what_it_holds(tmp_path: Path) -> None:
    embedded = ImageFont.load_default(20)
    assert isinstance(embedded, ImageFont.FreeTypeFont)
    (tmp_path / "font.ttf").write_bytes(embedded.font_bytes)
    drawn = own_profile("Made by AI", font=tmp_path / "font.ttf")
    assert drawn.template == own_profile("Made by AI").template
    with pytest.raises(ValueError, match=r"no glyph for U\+6210"):
        own_profile("AI 生成", font=tmp_path / "font.ttf")


def test_what_is_no_font_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.ttf is no font"):
        own_profile(font=tmp_path / "none.ttf")
    (tmp_path / "junk.ttf").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"junk\.ttf is no font"):
        own_profile(font=tmp_path / "junk.ttf")
