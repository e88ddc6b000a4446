"""Whatever text a request may have comes back as it was."""

import io

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from activities.imaging.provenance import exif
from activities.imaging.provenance.embedding import (
    carry_provenance,
    describe_provenance,
    read_provenance,
    write_provenance,
)
from activities.imaging.provenance.jpeg import JpegFile
from activities.imaging.provenance.png import PngFile
from activities.imaging.provenance.record import ImplicitLabel, Provenance, RecordedParameters
from activities.imaging.provenance.webp import WebpFile
from activities.imaging.provenance.xml import Element, parse_xml
from activities.imaging.provenance.xmp import Property, Xmp
from tests.activities.provenance_files import PLAIN, SAMPLES, coded_picture, opened, parts

# No deadline: a slow machine is not a fault of the code.
quick = settings(max_examples=60, deadline=None, database=None)

# What the API accepts, with what is hard to write down made likely.
prompts = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
    | st.sampled_from(
        ["]]>", "&amp;", "\r\n", "\r", "\ufeff", "\uffff", "\x01", "\\u0041", '"', " "]
    )
    | st.sampled_from(
        ["\U0001f98a", "שלום", "\nSteps: 1, Seed: 2", "</rdf:RDF>", "\x85", "\u2028"]
    ),
    max_size=8,
).map("".join)
plain_texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"),
    min_size=1,
    max_size=60,
)
labels = st.builds(
    ImplicitLabel,
    label=st.sampled_from(["1", "2", "3"]),
    content_producer=plain_texts,
    produce_id=plain_texts,
    reserved_code1=plain_texts,
    propagate_id=plain_texts,
)
recorded = st.builds(
    RecordedParameters,
    prompt=prompts,
    negative_prompt=prompts,
    num_inference_steps=st.integers(0, 1_000_000),
    guidance_scale=st.floats(0, 1000),
    seed=st.integers(0, 2**64 - 1),
    width=st.integers(1, 65_536),
    height=st.integers(1, 65_536),
    engine=plain_texts,
)
provenances = st.builds(
    Provenance,
    implicit_label=st.none() | labels,
    parameters=st.none() | recorded,
    software=plain_texts,
)


@pytest.mark.parametrize("name", PLAIN)
@quick
@given(provenance=provenances)
def test_any_record_comes_back_and_writing_it_again_changes_nothing(
    name: str, provenance: Provenance
) -> None:
    written = write_provenance(SAMPLES[name], provenance)
    assert read_provenance(written) == provenance
    assert write_provenance(written, provenance) == written
    assert coded_picture(written) == coded_picture(SAMPLES[name])
    assert describe_provenance(written).parameters == (provenance.parameters is not None)


@pytest.mark.parametrize("name", PLAIN)
@quick
@given(provenance=provenances)
def test_any_record_comes_along_into_any_format(name: str, provenance: Provenance) -> None:
    source = write_provenance(SAMPLES["png"], provenance)
    assert read_provenance(carry_provenance(source, SAMPLES[name])) == provenance


@quick
@given(first=provenances, second=provenances)
def test_the_last_record_counts_and_what_it_leaves_open_stays(
    first: Provenance, second: Provenance
) -> None:
    written = write_provenance(write_provenance(SAMPLES["jpeg"], first), second)
    label = second.implicit_label or first.implicit_label
    assert read_provenance(written) == second.model_copy(update={"implicit_label": label})


@quick
@given(parameters=recorded)
def test_pillow_reads_any_text_of_a_png(parameters: RecordedParameters) -> None:
    written = write_provenance(SAMPLES["png"], Provenance(parameters=parameters))
    assert opened(written).info["parameters"] == parameters.to_text()


@quick
@given(
    texts=st.dictionaries(
        st.sampled_from([0x010E, 0x010F, 0x0110, 0x8298, 0xA430, 0xA433]),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30),
    ),
    comment=prompts.filter(lambda text: text.strip("\0\ufeff ") == text != ""),
)
def test_a_comment_moves_nothing_else_in_exif(texts: dict[int, str], comment: str) -> None:
    before = Image.Exif()
    for tag, text in texts.items():
        (before if tag < 0xA000 else before.get_ifd(0x8769))[tag] = text
    tiff = before.tobytes().removeprefix(b"Exif\0\0")
    commented = exif.with_user_comment(tiff, comment)
    assert exif.user_comment(commented) == comment
    after = Image.Exif()
    after.load(commented)
    inner = after.get_ifd(0x8769)
    assert {tag: (after if tag < 0xA000 else inner)[tag] for tag in texts} == texts
    # Longer and shorter ones in its place leave nothing of it behind.
    assert exif.with_user_comment(exif.with_user_comment(commented, "x" * 99), comment) == commented


attribute_names = st.sampled_from(["a", "p:b", "xmlns:p", "xml:lang"])
values = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"],
        exclude_characters="\ufffe\uffff",
        include_characters="\r\n\t",
    )
)
elements = st.recursive(
    st.builds(Element, st.sampled_from(["e", "p:e"]), st.dictionaries(attribute_names, values)),
    lambda inner: st.builds(
        Element,
        st.just("p:outer"),
        st.dictionaries(attribute_names, values),
        # Neighbouring texts would be read as one.
        st.lists(inner, max_size=3) | st.lists(values.filter(bool), min_size=1, max_size=1),
    ),
    max_leaves=8,
)


@quick
@given(element=elements)
@example(Element("e", {"a": "\t\n\r \"'<>&"}, ["\r\n\t]]>"]))
def test_any_tree_reads_back_as_it_was_written(element: Element) -> None:
    assert parse_xml(element.to_xml().encode()) == element


@quick
@given(body=st.binary(max_size=300), name=st.sampled_from(["PNG", "JPEG", "WEBP"]))
def test_any_bytes_as_exif_are_kept_or_taken_apart(body: bytes, name: str) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, name, exif=b"Exif\0\0II*\0" + body)
    written = write_provenance(buffer.getvalue(), Provenance())
    assert coded_picture(written) == coded_picture(buffer.getvalue())
    assert len(parts(written)) > len(coded_picture(written))


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
FILES: dict[str, type[PngFile | JpegFile | WebpFile]] = {
    "png": PngFile,
    "jpeg": JpegFile,
    "webp": WebpFile,
}
foreign = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["One", "Two", "Three", "Four"])),
    st.tuples(plain_texts, st.sampled_from([1, 1, 40, 1500]), st.booleans()),
    max_size=6,
)


@pytest.mark.parametrize("name", PLAIN)
@quick
@given(properties=foreign, provenance=provenances)
def test_properties_of_others_stay_even_where_a_packet_must_be_split(
    name: str,
    properties: dict[tuple[str, str], tuple[str, int, bool]],
    provenance: Provenance,
) -> None:
    file = FILES[name].from_bytes(SAMPLES[name])
    expected = {
        Property(f"urn:{space}/", local): text * n
        for (space, local), (text, n, _) in properties.items()
    }
    description = Element(
        "rdf:Description", {"xmlns:rdf": RDF, "xmlns:a": "urn:a/", "xmlns:b": "urn:b/"}
    )
    for (space, local), (text, n, short) in properties.items():
        if short:
            description.attributes[f"{space}:{local}"] = text * n
        else:
            description.children.append(Element(f"{space}:{local}", {}, [text * n]))
    packet = Element("rdf:RDF", {"xmlns:rdf": RDF}, [description]).to_xml().encode()
    before = file.with_xmp(Xmp.from_packets((packet,)).to_packets(None))
    assume(name != "jpeg" or len(before.xmp[0]) < 65_000)
    written = write_provenance(before.to_bytes(), provenance)
    assert write_provenance(written, provenance) == written
    assert read_provenance(written) == provenance
    after = Xmp.from_packets(FILES[name].from_bytes(written).xmp)
    assert {key: after.get(key) for key in expected} == expected
