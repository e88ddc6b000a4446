"""What must not be in a file is nowhere in it, in whatever words an engine wrote it there."""

import json
import zlib

import pytest
from PIL import Image

from activities.finishing import carried_by
from activities.imaging.inspection import inspect_image
from activities.imaging.provenance.embedding import read_provenance, write_provenance
from activities.imaging.provenance.wording import mentions_of
from activities.imaging.removal import Pristine, restore_own
from tests.activities.provenance_files import (
    SAMPLES,
    WITHOUT_PARAMETERS,
    encoded,
    opened,
    with_chunk,
    with_texts,
)
from tests.activities.test_finishing import FORMATS, PARAMETERS, finisher

PRIVATE = "a fox's lake, 湖"
GRAPH = json.dumps({"graph": json.dumps({"text": f"masterpiece, {PRIVATE}, sharp"})})
XMP = f"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF
 xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:o="urn:other/" o:short="{PRIVATE}" o:kept="mine">
 <dc:description><rdf:Alt><rdf:li xml:lang="x-default">{PRIVATE}</rdf:li></rdf:Alt></dc:description>
 </rdf:Description></rdf:RDF></x:xmpmeta>"""


def written(data: bytes) -> bytes:
    """With a record of where it comes from, and nothing of the private text."""
    result = write_provenance(data, WITHOUT_PARAMETERS, [PRIVATE, ""])
    assert read_provenance(result) == WITHOUT_PARAMETERS
    for code in ("utf-8", "utf-16-le", "utf-16-be"):
        assert "a fox's lake".encode(code) not in result
    return result


@pytest.mark.parametrize("text", [PRIVATE, GRAPH, f"A DRAWING OF\n{PRIVATE.upper()}"])
@pytest.mark.parametrize("keyword", ["Description", "Comment", "fooocus_scheme"])
def test_no_text_of_a_png_has_it(keyword: str, text: str) -> None:
    image = opened(written(with_texts(**{keyword: text, "Author": "me"})))
    assert keyword not in image.info
    assert image.info["Author"] == "me"


def test_no_compressed_text_and_no_unknown_chunk_has_it() -> None:
    packed = b"Comment\0\0" + zlib.compress("a fox's lake, ä".encode("latin-1"))
    data = with_chunk(SAMPLES["png"], b"zTXt", packed)
    assert b"zTXt" not in write_provenance(data, WITHOUT_PARAMETERS, ["a fox's lake"])
    assert b"prVt" not in written(with_chunk(SAMPLES["png"], b"prVt", PRIVATE.encode()))


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
def test_no_value_of_exif_has_it(name: str) -> None:
    exif = Image.Exif()
    exif[0x010E] = f"{PRIVATE}, oil"
    exif[0x0112] = 6
    exif[0x013B] = "me"
    exif[0x9C9C] = PRIVATE.encode("utf-16-le")
    exif.get_ifd(0x8769)[0x9286] = b"UNICODE\0" + GRAPH.encode("utf-16-be")
    kept = opened(written(encoded(name, exif=exif))).getexif()
    assert (kept[0x0112], kept[0x013B]) == (6, "me")


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
def test_no_property_of_xmp_has_it(name: str) -> None:
    if name == "PNG":
        body = b"XML:com.adobe.xmp\0\0\0\0\0" + XMP.encode()
        result = written(with_chunk(SAMPLES["png"], b"iTXt", body))
    else:
        result = written(encoded(name, xmp=XMP.encode()))
    assert b'o:kept="mine"' in result


def test_no_segment_of_a_jpeg_has_it() -> None:
    assert b"by me" in written(encoded("JPEG", comment=b"by me"))
    written(encoded("JPEG", comment=GRAPH.encode()))
    data = encoded("JPEG")
    body = b"Photoshop 3.0\x00" + PRIVATE.encode()
    segment = b"\xff\xed" + (len(body) + 2).to_bytes(2, "big") + body
    written(data[:2] + segment + data[2:])


@pytest.mark.parametrize("name", ["png", "jpeg", "webp"])
def test_nothing_behind_the_picture_has_it(name: str) -> None:
    written(SAMPLES[name] + PRIVATE.encode())


def test_a_short_text_is_not_found_inside_of_other_words() -> None:
    mentions = mentions_of(["cat", " ", "湖"])
    assert mentions('{"prompt": "a Cat, sitting"}')
    assert mentions("画湖水")
    assert not mentions("location")
    assert not mentions_of(["", "\n"])("anything")


@pytest.mark.parametrize("label", [True, False])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_worker_that_keeps_prompts_private_hands_out_none(kind: str, label: bool) -> None:
    exif = Image.Exif()
    exif[0x010E] = PARAMETERS.prompt
    private = finisher(provenance_parameters=False, visible_label=label)
    data = encoded(kind, exif=exif)
    finished = private.finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert b"a lake" not in finished.data


@pytest.mark.parametrize("comment", ["a fox\nSteps: 3, Sampler: x, Seed: 4", PARAMETERS.prompt])
def test_a_jpeg_without_its_label_says_no_more_than_with_it(comment: str) -> None:
    data = encoded("JPEG", comment=comment.encode())
    private = finisher(provenance_parameters=False)
    finished = private.finish(data, inspect_image(data), PARAMETERS, "procedural")
    assert finished.covered is not None
    pristine = Pristine(finished.covered.box, finished.covered.file)
    clean = restore_own(finished.data, "image/jpeg", pristine)
    assert comment.encode() not in finished.data + clean.data
    assert carried_by(clean.data) == finished.provenance
