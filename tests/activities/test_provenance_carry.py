"""What a file says of its picture goes with it into a new coding."""

import io
import json

import pyexiv2
import pytest
from PIL import Image

from activities.imaging.provenance.embedding import (
    carry_provenance,
    describe_provenance,
    read_provenance,
    write_provenance,
)
from tests.activities.provenance_files import (
    FULL,
    LABEL,
    PARAMETERS,
    PLAIN,
    PROFILE,
    SAMPLES,
    WITHOUT_PARAMETERS,
    camera_exif,
    coded_picture,
    encoded,
    frames,
    opened,
    parts,
    picture,
    png_chunk,
    with_chunk,
    with_texts,
)

FORMATS = {"png": "PNG", "jpeg": "JPEG", "webp": "WEBP"}


def recoded(name: str) -> bytes:
    """Another picture of the same size, as a re-encoder leaves it."""
    buffer = io.BytesIO()
    picture(seed=7).save(buffer, FORMATS[name])
    return buffer.getvalue()


def rich(name: str) -> bytes:
    file = encoded(FORMATS[name], exif=camera_exif(), icc_profile=PROFILE)
    return write_provenance(file, FULL)


@pytest.mark.parametrize("target", PLAIN)
@pytest.mark.parametrize("source", PLAIN)
def test_everything_goes_along_whatever_the_formats(source: str, target: str) -> None:
    carried = carry_provenance(rich(source), recoded(target))
    assert read_provenance(carried) == FULL
    assert coded_picture(carried) == coded_picture(recoded(target))
    assert frames(carried) == frames(recoded(target))
    image = opened(carried)
    assert image.info["icc_profile"] == PROFILE
    assert image.getexif()[0x0112] == 6
    with pyexiv2.ImageData(carried) as read:
        assert json.loads(read.read_xmp()["Xmp.TC260.AIGC"]) == json.loads(LABEL.to_json())


@pytest.mark.parametrize("target", PLAIN)
@pytest.mark.parametrize("source", PLAIN)
def test_carried_twice_is_the_same(source: str, target: str) -> None:
    once = carry_provenance(rich(source), recoded(target))
    assert carry_provenance(rich(source), once) == once


@pytest.mark.parametrize("target", PLAIN)
@pytest.mark.parametrize("source", PLAIN)
def test_parameters_come_along_only_if_there_are_some(source: str, target: str) -> None:
    plain = write_provenance(SAMPLES[source], WITHOUT_PARAMETERS)
    carried = carry_provenance(plain, recoded(target))
    assert read_provenance(carried) == WITHOUT_PARAMETERS
    assert describe_provenance(carried).parameters is False


@pytest.mark.parametrize("target", PLAIN)
@pytest.mark.parametrize("source", PLAIN)
def test_the_customary_text_is_where_the_targets_readers_look(source: str, target: str) -> None:
    image = opened(carry_provenance(rich(source), recoded(target)))
    if target == "png":
        assert image.info["parameters"] == PARAMETERS.to_text()
    else:
        comment = image.getexif().get_ifd(0x8769)[0x9286]
        assert comment[8:].decode("utf-16-be") == PARAMETERS.to_text()


def test_every_text_of_a_png_goes_along_byte_for_byte() -> None:
    source = with_chunk(with_texts(Author="me", Title="狐"), b"zTXt", b"Comment\0\0not even zlib")
    carried = carry_provenance(source, recoded("png"))
    texts = {"tEXt", "zTXt", "iTXt"}
    assert [p for p in parts(carried) if p[0] in texts] == [
        p for p in parts(source) if p[0] in texts
    ]


def test_resolution_and_unknown_chunks_go_along_by_their_own_word() -> None:
    source = with_chunk(SAMPLES["png"], b"pHYs", b"\0\0\x0b\x13\0\0\x0b\x13\1")
    for kind in (b"exAm", b"exAM", b"bKGD"):
        source = with_chunk(source, kind, b"\0\1\0\1\0\1")
    kinds = [kind for kind, _ in parts(carry_provenance(source, recoded("png")))]
    assert "exAm" in kinds
    assert "pHYs" in kinds
    assert "exAM" not in kinds
    assert "bKGD" not in kinds


def test_the_targets_own_colour_gives_way_as_a_whole() -> None:
    target = with_chunk(with_chunk(recoded("png"), b"gAMA", b"\0\0\xb1\x8f"), b"sRGB", b"\0")
    carried = carry_provenance(rich("png"), target)
    kinds = [kind for kind, _ in parts(carried)]
    assert kinds.count("iCCP") == 1
    assert "gAMA" not in kinds
    assert "sRGB" not in kinds


def test_what_the_source_lacks_stays_as_the_target_has_it() -> None:
    target = encoded("PNG", icc_profile=PROFILE)
    assert opened(carry_provenance(SAMPLES["png"], target)).info["icc_profile"] == PROFILE


def test_comments_and_the_longest_prompts_of_a_jpeg_go_along() -> None:
    parameters = PARAMETERS.model_copy(
        update={"prompt": "\U0001f98a" * 8000, "negative_prompt": "&" * 8000}
    )
    provenance = FULL.model_copy(update={"parameters": parameters})
    source = write_provenance(encoded("JPEG", comment=b"by me"), provenance)
    for target in PLAIN:
        carried = carry_provenance(source, recoded(target))
        assert read_provenance(carried) == provenance
    assert opened(carry_provenance(source, recoded("jpeg"))).info["comment"] == b"by me"


def test_an_adobe_segment_that_says_how_the_file_is_coded_stays_the_targets() -> None:
    source = write_provenance(SAMPLES["jpeg-cmyk"], FULL)
    assert "EE" in [kind for kind, _ in parts(source)]
    carried = carry_provenance(source, recoded("jpeg"))
    assert "EE" not in [kind for kind, _ in parts(carried)]
    assert frames(carried) == frames(recoded("jpeg"))


def test_a_large_profile_goes_along_in_pieces() -> None:
    profile = PROFILE + bytes(range(256)) * 600
    source = encoded("WEBP", icc_profile=profile)
    in_jpeg = carry_provenance(source, recoded("jpeg"))
    assert opened(in_jpeg).info["icc_profile"] == profile
    in_png = carry_provenance(in_jpeg, recoded("png"))
    assert opened(in_png).info["icc_profile"] == profile


def test_a_picture_of_another_size_is_not_the_same_picture() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (10, 10)).save(buffer, "PNG")
    with pytest.raises(ValueError, match="not the same picture"):
        carry_provenance(SAMPLES["png"], buffer.getvalue())


def test_other_tools_parameters_go_along_too() -> None:
    text = "a fox\nSteps: 20, Sampler: Euler, CFG scale: 7, Seed: 5"
    carried = carry_provenance(with_texts(parameters=text), recoded("webp"))
    comment = opened(carried).getexif().get_ifd(0x8769)[0x9286]
    assert comment == b"ASCII\0\0\0" + text.encode()
    assert opened(carry_provenance(carried, recoded("png"))).info["parameters"] == text


def test_a_label_that_stands_in_a_chunk_only_comes_along() -> None:
    chunk = b"AIGC\0" + LABEL.to_json().encode()
    source = (
        SAMPLES["png"][:33]
        + png_chunk(b"iTXt", chunk.replace(b"\0", b"\0" * 5, 1))
        + (SAMPLES["png"][33:])
    )
    assert describe_provenance(carry_provenance(source, recoded("jpeg"))).aigc == LABEL
