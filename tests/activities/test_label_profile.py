"""Where a label lies on images of every size, and profiles as files."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from activities.imaging.labels.lettering import own_profile
from activities.imaging.labels.mark import Floats
from activities.imaging.labels.profile import Anchor, LabelProfile, Sizing, png_template

SIZES = (64, 65, 100, 257, 1024, 2047, 2048)


def plate(width: int = 40, height: int = 20) -> bytes:
    alpha: Floats = np.full((height, width), 0.5, np.float32)
    return png_template(alpha, np.full((height, width, 3), 255, np.float32))


def profile(**changes: Any) -> LabelProfile:
    given: dict[str, Any] = {
        "name": "plate",
        "margin_x": 0.05,
        "margin_y": 0.1,
        "height": 0.1,
        "opacity": 0.5,
        "template": plate(),
    }
    return LabelProfile(**(given | changes))


@pytest.mark.parametrize("anchor", Anchor)
@pytest.mark.parametrize("sizing", Sizing)
def test_a_mark_lies_inside_images_of_every_size(anchor: Anchor, sizing: Sizing) -> None:
    lengths = (0.05, 0.1, 0.1) if sizing is Sizing.SHARE else (8, 9, 30)
    margin_x, margin_y, tall = lengths
    of_plate = profile(
        anchor=anchor, sizing=sizing, margin_x=margin_x, margin_y=margin_y, height=tall
    )
    for width in SIZES:
        for height in SIZES:
            mark = of_plate.mark_on(width, height)
            left, top, right, bottom = mark.box
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
            assert mark.alpha.any()
            assert mark.colour.shape == (*mark.alpha.shape, 3)


def test_the_services_own_label_lies_inside_images_of_every_size() -> None:
    label = own_profile()
    for width in SIZES:
        for height in SIZES:
            left, top, right, bottom = label.mark_on(width, height).box
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
            assert bottom - top >= 8


@pytest.mark.parametrize(
    ("anchor", "corner"),
    [
        ("top-left", (10, 20)),
        ("top", (90, 20)),
        ("top-right", (150, 20)),
        ("left", (10, 110)),
        ("centre", (90, 110)),
        ("right", (150, 110)),
        ("bottom-left", (10, 160)),
        ("bottom", (90, 160)),
        ("bottom-right", (150, 160)),
    ],
)
def test_margins_count_from_the_sides_that_the_anchor_names(
    anchor: str, corner: tuple[int, int]
) -> None:
    """And from the centre, to the right and down, where it names none."""
    mark = profile(anchor=anchor).mark_on(200, 200)
    assert (mark.width, mark.height) == (40, 20)
    assert (mark.left, mark.top) == corner


def test_shares_are_of_the_shorter_side_and_pixels_stay_pixels() -> None:
    assert profile(height=0.1).mark_on(400, 300).height == 30
    assert profile(height=0.1).mark_on(300, 400).height == 30
    fixed = profile(sizing=Sizing.PIXELS, margin_x=3, margin_y=4, height=20)
    for side in (100, 1000):
        assert fixed.mark_on(side, side).box == (side - 43, side - 24, side - 3, side - 4)


def test_a_mark_in_its_own_size_is_the_template_itself() -> None:
    random = np.random.default_rng(0)
    alpha = (random.integers(0, 256, (20, 40)) / 255).astype(np.float32)
    colour = random.integers(0, 256, (20, 40, 3)).astype(np.float32)
    own_size = profile(template=png_template(alpha, colour), height=0.1, opacity=1)
    mark = own_size.mark_on(200, 300)
    assert np.array_equal(mark.alpha, alpha)
    assert np.array_equal(mark.colour, colour)


def test_the_opacity_multiplies_the_templates_alpha() -> None:
    mark = profile(opacity=0.25).mark_on(200, 200)
    assert mark.alpha == pytest.approx(np.full((20, 40), 0.25 * 128 / 255))


def test_colour_under_transparent_pixels_does_not_bleed_into_a_scaled_mark() -> None:
    alpha = np.zeros((40, 80), np.float32)
    alpha[10:30, 20:60] = 1
    colour = np.where(alpha[..., None] > 0, 60, 255) * np.ones(3)
    template = png_template(alpha, colour.astype(np.float32))
    mark = profile(template=template).mark_on(130, 130)
    assert mark.colour[mark.alpha > 0.001].max() < 61


def test_the_same_size_gives_the_same_mark() -> None:
    read_again = LabelProfile.model_validate_json(own_profile().model_dump_json())
    first, second = own_profile().mark_on(333, 222), read_again.mark_on(333, 222)
    assert first.box == second.box
    assert np.array_equal(first.alpha, second.alpha)
    assert np.array_equal(first.colour, second.colour)


def test_a_profile_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    written = profile(made_from=(640, 480), sizing=Sizing.PIXELS, min_height=7)
    written.write(path)
    assert LabelProfile.read(path) == written


def png_of(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("template", "no base64!"),
        ("template", base64.b64encode(b"no picture").decode()),
        ("template", base64.b64encode(plate()[:-40]).decode()),
        ("template", png_of(Image.new("RGBA", (9, 9)))),
        ("template", png_of(Image.new("RGBA", (4097, 1), "red"))),
        ("template", 5),
        ("opacity", 1.5),
        ("opacity", 0),
        ("anchor", "middle"),
        ("height", -1),
        ("margin_x", "wide"),
        ("margin_y", -0.1),
        ("made_from", [3]),
        ("name", ""),
    ],
)
def test_a_damaged_profile_is_refused_by_the_name_of_the_field(
    tmp_path: Path, field: str, value: object
) -> None:
    path = tmp_path / "profile.json"
    fields = json.loads(profile().model_dump_json()) | {field: value}
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match=f"profile.json is no label profile: {field}") as refusal:
        LabelProfile.read(path)
    assert not isinstance(refusal.value, ValidationError)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b'{"name": "x"}'])
def test_what_is_no_profile_at_all_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"profile\.json is no label profile: "):
        LabelProfile.read(path)
