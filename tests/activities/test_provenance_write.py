"""Provenance goes into every kind of file, and nothing of the picture changes."""

import hashlib
import json
from xml.etree import ElementTree

import pyexiv2
import pytest
from PIL import Image

from activities.imaging.provenance.embedding import (
    describe_provenance,
    read_provenance,
    write_provenance,
)
from activities.imaging.provenance.record import (
    TRAINED_ALGORITHMIC_MEDIA,
    ImplicitLabel,
    Provenance,
    RecordedParameters,
)
from tests.activities.provenance_files import (
    FULL,
    LABEL,
    PARAMETERS,
    PLAIN,
    SAMPLES,
    WITHOUT_PARAMETERS,
    coded_picture,
    frames,
    opened,
    parts,
    png_chunk,
)

IPTC = "{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType"
TC260 = "{http://www.tc260.org.cn/ns/AIGC/1.0/}AIGC"
AIGC = {
    "Label": "1",
    "ContentProducer": LABEL.content_producer,
    "ProduceID": LABEL.produce_id,
    "ReservedCode1": "",
    "ContentPropagator": LABEL.content_propagator,
    "PropagateID": "",
    "ReservedCode2": "",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_picture_stays_byte_for_byte_and_the_record_reads_back(name: str) -> None:
    for provenance in (FULL, WITHOUT_PARAMETERS):
        written = write_provenance(SAMPLES[name], provenance)
        assert read_provenance(written) == provenance
        assert coded_picture(written) == coded_picture(SAMPLES[name])
        assert frames(written) == frames(SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
def test_written_twice_gives_the_same_bytes(name: str) -> None:
    for provenance in (FULL, WITHOUT_PARAMETERS):
        written = write_provenance(SAMPLES[name], provenance)
        assert write_provenance(written, provenance) == written


@pytest.mark.parametrize("name", SAMPLES)
def test_parameters_that_are_switched_off_leave_no_trace(name: str) -> None:
    off = write_provenance(write_provenance(SAMPLES[name], FULL), WITHOUT_PARAMETERS)
    assert describe_provenance(off).parameters is False
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        assert "Steps:".encode(encoding) not in off
        assert "procedural".encode(encoding) not in off
    assert read_provenance(off) == WITHOUT_PARAMETERS


@pytest.mark.parametrize("name", SAMPLES)
def test_another_record_replaces_the_first_and_the_file_does_not_grow(name: str) -> None:
    once = write_provenance(SAMPLES[name], FULL)
    other = FULL.model_copy(
        update={"parameters": PARAMETERS.model_copy(update={"prompt": "something else " * 40})}
    )
    assert read_provenance(write_provenance(once, other)) == other
    assert write_provenance(write_provenance(once, other), FULL) == once


@pytest.mark.parametrize("name", PLAIN)
def test_pillow_and_an_xml_parser_find_source_type_and_label(name: str) -> None:
    packet = opened(write_provenance(SAMPLES[name], FULL)).info["xmp"]
    root = ElementTree.fromstring(packet)  # noqa: S314 (our own packet)
    assert [e.text for e in root.iter(IPTC)] == [TRAINED_ALGORITHMIC_MEDIA]
    assert [json.loads(e.text or "") for e in root.iter(TC260)] == [AIGC]


@pytest.mark.parametrize("name", PLAIN)
def test_exiv2_finds_source_type_and_label(name: str) -> None:
    with pyexiv2.ImageData(write_provenance(SAMPLES[name], FULL)) as image:
        xmp = image.read_xmp()
    assert xmp["Xmp.iptcExt.DigitalSourceType"] == TRAINED_ALGORITHMIC_MEDIA
    assert xmp["Xmp.xmp.CreatorTool"] == "Darkroom"
    assert json.loads(xmp["Xmp.TC260.AIGC"]) == AIGC


def test_a_png_has_the_texts_that_other_tools_look_for() -> None:
    image = opened(write_provenance(SAMPLES["png"], FULL))
    assert isinstance(image, Image.Image)
    assert image.info["parameters"] == PARAMETERS.to_text()
    assert json.loads(image.info["AIGC"]) == AIGC


def test_plain_english_is_in_chunks_of_the_oldest_kind() -> None:
    parameters = PARAMETERS.model_copy(update={"prompt": "a fox", "negative_prompt": ""})
    label = ImplicitLabel(content_producer="Darkroom", produce_id="1")
    written = write_provenance(
        SAMPLES["png"], Provenance(implicit_label=label, parameters=parameters)
    )
    texts = [body.partition(b"\0") for kind, body in parts(written) if kind == "tEXt"]
    assert (b"parameters", b"\0", parameters.to_text().encode()) in texts
    assert (b"AIGC", b"\0", label.to_json().encode()) in texts


@pytest.mark.parametrize("prompt", ["a fox", 'лиса & "狐" ]]> שלום'])
@pytest.mark.parametrize("name", ["jpeg", "webp"])
def test_exiv2_finds_the_parameters_in_the_user_comment(name: str, prompt: str) -> None:
    # Exiv2 reads UCS-2 only: what lies above U+FFFF is for the test with Pillow.
    parameters = PARAMETERS.model_copy(update={"prompt": prompt})
    with pyexiv2.ImageData(
        write_provenance(SAMPLES[name], FULL.model_copy(update={"parameters": parameters}))
    ) as image:
        comment = image.read_exif()["Exif.Photo.UserComment"]
    assert comment.partition(" ")[2] == parameters.to_text()


@pytest.mark.parametrize("name", ["jpeg", "webp"])
def test_pillow_finds_the_parameters_in_the_user_comment(name: str) -> None:
    comment = opened(write_provenance(SAMPLES[name], FULL)).getexif().get_ifd(0x8769)[0x9286]
    assert comment[:8] == b"UNICODE\0"
    assert comment[8:].decode("utf-16-be") == PARAMETERS.to_text()


def test_the_text_is_in_the_customary_form() -> None:
    parameters = RecordedParameters(
        prompt="a fox",
        negative_prompt="blur",
        num_inference_steps=30,
        guidance_scale=7,
        seed=5,
        width=64,
        height=96,
        engine="local: big, new",
    )
    assert parameters.to_text() == (
        "a fox\nNegative prompt: blur\n"
        'Steps: 30, CFG scale: 7, Seed: 5, Size: 64x96, Model: "local: big, new"'
    )


@pytest.mark.parametrize("script", ["a", "ы", "狐", "\U0001f98a", "&", '"', "\x01", "\uffff"])
@pytest.mark.parametrize("name", PLAIN)
def test_the_longest_prompts_fit_in_every_script(name: str, script: str) -> None:
    longest = PARAMETERS.model_copy(
        update={"prompt": script * 8000, "negative_prompt": script * 8000, "engine": "e" * 100}
    )
    provenance = FULL.model_copy(update={"parameters": longest})
    written = write_provenance(SAMPLES[name], provenance)
    assert read_provenance(written) == provenance
    assert write_provenance(written, provenance) == written
    assert coded_picture(written) == coded_picture(SAMPLES[name])
    # The label must be found by tools that don't know of a second packet.
    root = ElementTree.fromstring(opened(written).info["xmp"])  # noqa: S314 (our own packet)
    assert [json.loads(e.text or "") for e in root.iter(TC260)] == [AIGC]


def test_a_lossless_webp_without_a_header_gets_one_that_tells_of_its_alpha() -> None:
    (body,) = (b for kind, b in parts(SAMPLES["webp-lossless-alpha"]) if kind == "VP8L")
    body += b"\0" * (len(body) % 2)
    chunk = b"WEBPVP8L" + len(body).to_bytes(4, "little") + body
    written = write_provenance(b"RIFF" + len(chunk).to_bytes(4, "little") + chunk, FULL)
    kind, header = parts(written)[0]
    assert (kind, header[0]) == ("VP8X", 0x10 | 0x08 | 0x04)
    assert frames(written) == frames(SAMPLES["webp-lossless-alpha"])


def test_nothing_is_changed_where_the_record_says_nothing_new() -> None:
    nothing = Provenance(digital_source_type=None, software=None)
    written = write_provenance(SAMPLES["png"], FULL)
    kept = read_provenance(write_provenance(written, nothing))
    assert kept == WITHOUT_PARAMETERS


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_without_a_record_has_none(name: str) -> None:
    assert read_provenance(SAMPLES[name]) is None
    summary = describe_provenance(SAMPLES[name])
    assert summary.model_dump() == {
        "digital_source_type": None,
        "aigc": None,
        "parameters": False,
        "content_credentials": "absent",
    }


@pytest.mark.parametrize("name", PLAIN)
def test_what_a_file_carries_is_told_in_short(name: str) -> None:
    summary = describe_provenance(write_provenance(SAMPLES[name], FULL))
    assert summary.digital_source_type == TRAINED_ALGORITHMIC_MEDIA
    assert summary.aigc == LABEL
    assert summary.parameters is True


@pytest.mark.parametrize("field", ["content_producer", "produce_id", "reserved_code1"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a\nb", "control characters"),
        ("a\0b", "control characters"),
        ("\x7f", "control characters"),
        ("\uffff", "control characters"),
        ("\ud800", "surrogate|unicode"),
        ("x" * 1001, "at most"),
    ],
)
def test_a_label_refuses_what_could_break_or_hide_it(field: str, value: str, why: str) -> None:
    values = {"content_producer": "x", "produce_id": "1", field: value}
    with pytest.raises(ValueError, match=why):
        ImplicitLabel.model_validate(values)


@pytest.mark.parametrize("missing", ["content_producer", "produce_id"])
def test_a_generated_pictures_label_names_its_producer_and_its_number(missing: str) -> None:
    values = {"content_producer": "x", "produce_id": "1", missing: ""}
    with pytest.raises(ValueError, match="names its producer"):
        ImplicitLabel.model_validate(values)


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("png", "b468d66a58c23798fcdc9cbb0d22f2c2c46e3b316758a5e9dd6deebce5b3f30f"),
        ("jpeg", "6f88416535acee5328b3c168b7a2ce471a48290157422c2d8016dc9ab835eb72"),
        ("webp", "5758d3ae75a81fd84de00660f345f31d92e9530c01c82b6e1183826fb6f8fb0f"),
    ],
)
def test_the_same_record_has_the_same_bytes_on_every_machine(name: str, sha256: str) -> None:
    written = write_provenance(EMPTY[name], FULL)
    assert hashlib.sha256(written).hexdigest() == sha256


# Containers as no encoder's version can change them, with a header and nothing to decode.
EMPTY = {
    "png": b"\x89PNG\r\n\x1a\n"
    + png_chunk(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\2\0\0\0")
    + png_chunk(b"IDAT", b"")
    + png_chunk(b"IEND", b""),
    "jpeg": bytes.fromhex("ffd8 ffc0000b08000100010101 1100 ffda0008010100003f00 ffd9"),
    "webp": b"RIFF\x16\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\1\0\1\0",
}
