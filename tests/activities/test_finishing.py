"""What is done to an engine's image before it is stored: label, provenance, and the way back."""

import io
import json

import numpy as np
import pytest
from PIL import Image, ImageFilter, JpegImagePlugin

from activities.errors import ErrorKind, WorkError
from activities.finishing import Finisher
from activities.imaging.errors import UnfitImageError
from activities.imaging.inspection import inspect_image
from activities.imaging.removal import LabelNotFoundError, Pristine, remove_label, restore_own
from activities.imaging.stills import open_still
from activities.label_settings import LabelSettings
from activities.models import GenerationParameters

PARAMETERS = GenerationParameters(
    prompt='a lake, 湖 🌊 "quoted" <b>', negative_prompt="noise", seed=2**64 - 1
)
FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


def finisher(**settings: object) -> Finisher:
    """As a worker has it with these settings."""
    return LabelSettings.model_validate(settings).finisher()


def picture(size: tuple[int, int] = (300, 200), mode: str = "RGB") -> Image.Image:
    """A picture that is no two times the same in any corner."""
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """The file of a picture."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels_of(data: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """What any other program sees, with its transparency."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGBA"))


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P"])
def test_only_the_box_changes_and_comes_back_bit_exact(kind: str, mode: str) -> None:
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    data = encoded(picture(mode=mode), kind, **options)
    before = pixels_of(data)
    finished = finisher().finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert finished.covered is not None
    left, top, right, bottom = finished.covered.box
    after = pixels_of(finished.data)
    changed = np.argwhere((before != after).any(axis=2))
    assert len(changed) > 100
    assert (changed.min(axis=0) >= (top, left)).all()
    assert (changed.max(axis=0) < (bottom, right)).all()
    pristine = Pristine(finished.covered.box, finished.covered.file)
    clean = restore_own(finished.data, FORMATS[kind], pristine)
    assert (pixels_of(clean.data) == before).all()
    assert (clean.removed.method, clean.removed.is_clean) == ("pristine", True)


def seen_on(data: bytes, level: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """What a viewer shows in front of a background of this grey."""
    with Image.open(io.BytesIO(data)) as image:
        shown = image.convert("RGBA")
    behind = Image.new("RGBA", shown.size, (level, level, level, 255))
    return np.asarray(Image.alpha_composite(behind, shown).convert("L")).astype(np.uint8)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_label_is_seen_on_transparency_which_comes_back(kind: str, mode: str) -> None:
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    image = picture(mode=mode)
    image.putalpha(0)
    data = encoded(image, kind, **options)
    finished = finisher().finish(data, inspect_image(data), PARAMETERS, "procedural")
    for level in (0, 128, 255):
        shown = seen_on(finished.data, level)
        assert np.abs(shown.astype(int) - level).max() > 50
    assert finished.covered is not None
    pristine = Pristine(finished.covered.box, finished.covered.file)
    clean = restore_own(finished.data, FORMATS[kind], pristine)
    assert (pixels_of(clean.data) == pixels_of(data)).all()


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_transparency_that_only_an_opaque_label_covers_comes_back(kind: str) -> None:
    solid = finisher(label_opacity=1)
    assert solid.label is not None
    mark = solid.label.mark_on(300, 200)
    left, top, right, bottom = mark.box
    pixels = np.asarray(picture(mode="RGBA")).copy()
    pixels[..., 3] = 255
    pixels[top:bottom, left:right, 3][mark.alpha == 1] = 0
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    data = encoded(Image.fromarray(pixels), kind, **options)
    finished = solid.finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert (pixels_of(finished.data)[..., 3] == 255).all()
    assert finished.covered is not None
    pristine = Pristine(finished.covered.box, finished.covered.file)
    clean = restore_own(finished.data, FORMATS[kind], pristine)
    assert (pixels_of(clean.data) == pixels).all()


def test_what_lies_below_a_label_on_transparency_is_not_guessed() -> None:
    image = picture((400, 300), "RGBA")
    image.putalpha(200)
    data = encoded(image.filter(ImageFilter.GaussianBlur(6)), "PNG")
    made = finisher()
    assert made.label is not None
    finished = made.finish(data, inspect_image(data), PARAMETERS, "procedural")
    with pytest.raises(UnfitImageError, match="transparent below its label"):
        remove_label(finished.data, "image/png", [made.label], lambda *_: None)


def tables_of(data: bytes) -> list[list[int]]:
    """The quantisation table of each component."""
    with Image.open(io.BytesIO(data)) as image:
        assert isinstance(image, JpegImagePlugin.JpegImageFile)
        return [image.quantization[table] for _, _, _, table in image.layer]


def with_tables_renamed(data: bytes) -> bytes:
    """The same RGB file, whose only table is no longer the first."""
    file, frame = bytearray(data), data.index(b"\xff\xc0")
    for at in (data.index(b"\xff\xdb") + 4, *(frame + 12 + 3 * n for n in range(3))):
        file[at] = 1
    return bytes(file)


RGB = encoded(picture(), "JPEG", quality=83, keep_rgb=True)
# What stores RGB has no blocks that can be written alone.
JPEGS: dict[str, bytes] = {
    "colour": encoded(picture(), "JPEG", quality=83),
    "grey": encoded(picture(mode="L"), "JPEG", quality=83),
    "RGB": RGB,
    "RGB, second table": with_tables_renamed(RGB),
}


@pytest.mark.parametrize("kind", JPEGS)
def test_jpeg_comes_back_as_the_file_that_it_was(kind: str) -> None:
    data = JPEGS[kind]
    finished = finisher().finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert finished.covered is not None
    left, top, right, bottom = finished.covered.box
    assert (pixels_of(finished.data) != pixels_of(data))[top:bottom, left:right].any()
    assert tables_of(finished.data) == tables_of(data)
    pristine = Pristine(finished.covered.box, finished.covered.file)
    clean = restore_own(finished.data, "image/jpeg", pristine)
    assert (pixels_of(clean.data) == pixels_of(data)).all()
    assert b"trainedAlgorithmicMedia" in clean.data


@pytest.mark.parametrize("kind", ["colour", "grey"])
def test_jpeg_does_not_change_away_from_its_label(kind: str) -> None:
    data = JPEGS[kind]
    finished = finisher().finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert finished.covered is not None
    left, top, right, bottom = finished.covered.box
    changed = np.argwhere((pixels_of(finished.data) != pixels_of(data)).any(axis=2))
    # An MCU is 16 pixels here, and decoders blend one pixel around it.
    assert (changed.min(axis=0) >= (top - 17, left - 17)).all()
    assert (changed.max(axis=0) <= (bottom + 16, right + 16)).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_equal_images_are_finished_to_equal_bytes(kind: str) -> None:
    data = encoded(picture(), kind)
    facts = inspect_image(data)
    once, again = (finisher().finish(data, facts, PARAMETERS, "procedural") for _ in range(2))
    assert once == again


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("kind", FORMATS)
def test_file_says_where_it_comes_from_to_other_programs(kind: str, label: bool) -> None:
    data = encoded(picture(), kind)
    made = finisher(visible_label=label, provider_name="Acme 图像")
    finished = made.finish(data, inspect_image(data), PARAMETERS, "procedural")
    with Image.open(io.BytesIO(finished.data)) as image:
        xmp = json.dumps(image.getxmp(), ensure_ascii=False)
    assert "digitalsourcetype/trainedAlgorithmicMedia" in xmp
    assert "Acme 图像" in xmp
    told = finished.provenance
    assert told.digital_source_type is not None
    assert told.aigc is not None
    assert (told.aigc["Label"], told.aigc["ContentProducer"]) == ("1", "Acme 图像")
    assert len(told.aigc["ProduceID"]) == 32
    assert told.has_parameters
    assert (finished.covered is not None) is label


@pytest.mark.parametrize("kind", FORMATS)
def test_prompt_can_be_kept_out_of_the_file(kind: str) -> None:
    data = encoded(picture(), kind)
    private = finisher(provenance_parameters=False)
    finished = private.finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert not finished.provenance.has_parameters
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        assert "a lake".encode(encoding) not in finished.data


def test_label_that_is_not_there_is_not_restored() -> None:
    data = encoded(picture(), "PNG")
    finished = finisher().finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert finished.covered is not None
    pristine = Pristine(finished.covered.box, finished.covered.file)
    clean = restore_own(finished.data, "image/png", pristine)
    with pytest.raises(LabelNotFoundError):
        restore_own(clean.data, "image/png", pristine)


def test_what_can_not_be_labelled_is_not_handed_out() -> None:
    data = encoded(Image.new("I;16", (64, 64)), "PNG")
    with pytest.raises(WorkError, match="8 bits") as refusal:
        finisher().finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert refusal.value.kind is ErrorKind.ENGINE_CRASHED


@pytest.mark.parametrize("field", ["prompt", "negative_prompt"])
def test_what_can_not_be_recorded_is_refused_before_the_work(field: str) -> None:
    asked = PARAMETERS.model_copy(update={field: "a\0b"})
    with pytest.raises(WorkError, match=f"can't record `{field}`: must not contain NUL") as refusal:
        finisher().check(asked, "procedural")
    assert refusal.value.kind is ErrorKind.INVALID_PARAMETERS
    finisher(provenance_parameters=False).check(asked, "procedural")
    finisher().check(PARAMETERS, "procedural")


def test_unfit_images_are_refused_by_name() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    animated = encoded(
        picture(), "WEBP", save_all=True, append_images=[picture().rotate(90)], duration=100
    )
    for data, media_type, name in (
        (encoded(picture(mode="CMYK"), "JPEG"), "image/jpeg", "CMYK"),
        (encoded(picture(), "JPEG", exif=turned), "image/jpeg", "orientation 6"),
        (animated, "image/webp", "animated"),
    ):
        with pytest.raises(Exception, match=name):
            open_still(data, media_type)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_exif_that_nobody_can_read_turns_no_image(kind: str) -> None:
    data = encoded(picture(), kind, exif=b"no TIFF at all")
    finished = finisher().finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert finished.covered is not None
    assert finished.provenance.has_parameters


def test_prompt_that_no_file_can_hold_is_the_requests_fault() -> None:
    data = encoded(picture(), "PNG")
    asked = PARAMETERS.model_copy(update={"negative_prompt": "a\0b"})
    with pytest.raises(WorkError, match="`negative_prompt`: must not contain NUL") as refusal:
        finisher().finish(data, inspect_image(data), asked, "procedural")
    assert refusal.value.kind is ErrorKind.INVALID_PARAMETERS
