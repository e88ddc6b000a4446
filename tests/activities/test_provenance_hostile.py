"""Files from anywhere: read within bounds, or refused with a message for a user."""

import json
import random
import struct
import tracemalloc
import zlib
from contextlib import suppress

import pytest

from activities.imaging.provenance.embedding import (
    carry_provenance,
    describe_provenance,
    read_provenance,
    write_provenance,
)
from activities.imaging.provenance.errors import DamagedMetadataError
from activities.imaging.provenance.record import Provenance, ProvenanceSummary
from tests.activities.provenance_files import (
    FULL,
    PARAMETERS,
    SAMPLES,
    encoded,
    png_chunk,
    with_chunk,
)

XMP_KEYWORD = b"XML:com.adobe.xmp"
RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">{}</rdf:RDF>'
MIB = 1024 * 1024


def with_xmp(packet: str, *, compressed: bool = False) -> bytes:
    body = zlib.compress(packet.encode()) if compressed else packet.encode()
    return with_chunk(
        SAMPLES["png"], b"iTXt", XMP_KEYWORD + b"\0" + bytes([compressed]) + b"\0\0\0" + body
    )


def with_property(declaration: str, element: str) -> bytes:
    description = f'<rdf:Description rdf:about="" {declaration}>{element}</rdf:Description>'
    return with_xmp(RDF.format(description))


def tc260(label: str) -> bytes:
    return with_property(
        'xmlns:T="http://www.tc260.org.cn/ns/AIGC/1.0/"', f"<T:AIGC>{label}</T:AIGC>"
    )


REFUSED = {
    "nothing": b"",
    "no image": b"<html>" * 10,
    "signature only": b"\x89PNG\r\n\x1a\n",
    "jpeg start only": b"\xff\xd8\xff",
    "webp start only": b"RIFF\x04\0\0\0WEBP",
    "png without pixels": b"\x89PNG\r\n\x1a\n" + png_chunk(b"IEND", b""),
    "huge length": SAMPLES["png"][:33] + b"\xff\xff\xff\xff" + SAMPLES["png"][37:],
    "wrong checksum": SAMPLES["png"][:29] + b"\0\0\0\0" + SAMPLES["png"][33:],
    "entity bomb": with_xmp(
        '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><a>&c;</a>'
    ),
    "external entity": with_xmp(
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]>' + RDF.format("&b;")
    ),
    "undeclared entity": with_xmp(RDF.format("&b;")),
    "xml without an end": with_xmp("<a>" * 10),
    "deep xml": with_xmp("<a>" * 5000 + "</a>" * 5000),
    "wide xml": with_xmp(RDF.format("<a/>" * 100_000)),
    "large xml": with_xmp(RDF.format("a" * 2 * MIB)),
    "zip bomb": with_xmp(" " * 60 * MIB, compressed=True),
    "cut-off zip": with_chunk(
        SAMPLES["png"], b"iTXt", XMP_KEYWORD + b"\0\1\0\0\0" + zlib.compress(b"a" * 999)[:-6]
    ),
    "no zip": with_chunk(SAMPLES["png"], b"iTXt", XMP_KEYWORD + b"\0\1\0\0\0zip"),
    "label that is no JSON": tc260("yes"),
    "label that is a list": tc260("[]"),
    "label with a wrong type": tc260('{"Label": 7}'),
    "label nested without end": tc260("[" * 200_000),
    "label with a huge number": tc260("9" * 10_000),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_damaged_or_dangerous_is_refused_with_words_for_a_user(name: str) -> None:
    for read in (read_provenance, describe_provenance):
        with pytest.raises(DamagedMetadataError, match=r"^The file.*\.$|^The \w+ file.*\.$"):
            read(REFUSED[name])


@pytest.mark.parametrize("name", ["entity bomb", "wide xml", "large xml", "zip bomb"])
def test_a_bomb_takes_little_memory(name: str) -> None:
    bomb = REFUSED[name]
    tracemalloc.start()
    try:
        with pytest.raises(DamagedMetadataError):
            read_provenance(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30 * MIB


def test_a_packet_that_may_be_somebodys_is_not_thrown_away_for_being_large() -> None:
    with pytest.raises(DamagedMetadataError, match="too large"):
        write_provenance(REFUSED["large xml"], FULL)


def test_compressed_text_without_its_end_is_refused_however_whole_it_looks() -> None:
    body = zlib.compress(RDF.format("").encode())[:-1]
    cut = with_chunk(SAMPLES["png"], b"iTXt", XMP_KEYWORD + b"\0\1\0\0\0" + body)
    with pytest.raises(DamagedMetadataError, match="cut off"):
        read_provenance(cut)


@pytest.mark.parametrize("keyword", [b"parameters", b"AIGC"])
def test_bombs_in_texts_are_refused(keyword: bytes) -> None:
    bomb = with_chunk(SAMPLES["png"], b"zTXt", keyword + b"\0\0" + zlib.compress(b"a" * 9 * MIB))
    with pytest.raises(DamagedMetadataError, match="too large"):
        describe_provenance(bomb)


def test_a_bomb_of_a_colour_profile_is_refused_when_it_must_be_unpacked() -> None:
    bomb = with_chunk(SAMPLES["png"], b"iCCP", b"x\0\0" + zlib.compress(b"\0" * 20 * MIB))
    with pytest.raises(DamagedMetadataError, match="too large"):
        carry_provenance(bomb, SAMPLES["webp"])
    assert read_provenance(write_provenance(bomb, FULL)) == FULL


def test_a_file_of_nothing_but_chunks_is_refused() -> None:
    many = SAMPLES["png"][:33] + png_chunk(b"abCd", b"") * 200_001 + SAMPLES["png"][33:]
    with pytest.raises(DamagedMetadataError):
        read_provenance(many)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_that_was_cut_off_anywhere_is_refused_or_read_as_far_as_it_goes(name: str) -> None:
    whole = write_provenance(SAMPLES[name], FULL)
    step = max(1, len(whole) // 60)
    refused = 0
    for size in range(0, len(whole) - 1, step):
        try:
            read_provenance(whole[:size])
        except DamagedMetadataError:
            refused += 1
    assert refused == len(range(0, len(whole) - 1, step))


@pytest.mark.parametrize("name", SAMPLES)
def test_damage_of_any_kind_gives_a_record_or_a_refusal_and_nothing_else(name: str) -> None:
    chance = random.Random(name)
    whole = write_provenance(SAMPLES[name], FULL)
    for _ in range(60):
        damaged = repaired(bytearray(whole), chance)
        with suppress(DamagedMetadataError):
            assert isinstance(read_provenance(damaged), Provenance | None)
        with suppress(DamagedMetadataError):
            assert isinstance(describe_provenance(damaged), ProvenanceSummary)
        for provenance in (FULL, Provenance()):
            with suppress(DamagedMetadataError):
                assert isinstance(write_provenance(damaged, provenance), bytes)
        with suppress(DamagedMetadataError, ValueError):
            assert isinstance(carry_provenance(damaged, SAMPLES["webp"]), bytes)


def repaired(data: bytearray, chance: random.Random) -> bytes:
    """Some bytes changed, and a PNG's checksums made right again: damage should get further."""
    for _ in range(chance.randint(1, 5)):
        data[chance.randrange(3, len(data))] = chance.choice((0, 1, 0x41, 0x7F, 0xFF))
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return bytes(data)
    at = 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            break
        data[end : end + 4] = struct.pack(">I", zlib.crc32(data[at + 4 : end]))
        at = end + 4
    return bytes(data)


def test_exif_that_is_damaged_stays_and_the_parameters_go_elsewhere() -> None:
    damaged = b"Exif\0\0MM\0*\0\0\xff\xff" + b"\0" * 20
    written = write_provenance(encoded("JPEG", exif=damaged), FULL)
    assert damaged in written
    assert PARAMETERS.to_text().encode() in written
    assert read_provenance(written) == FULL


def test_exif_whose_values_lie_over_each_other_breaks_nothing() -> None:
    prompt = b"prompt:{" + b"x" * 40
    entries = [struct.pack(">HHII", tag, 2, len(prompt), 50) for tag in (0x010E, 0x010F, 0x0110)]
    tiff = b"MM\0*\0\0\0\x08\0\3" + b"".join(entries) + b"\0" * 4 + prompt
    written = write_provenance(encoded("WEBP", exif=tiff), Provenance())
    assert prompt not in written
    assert json.loads(describe_provenance(written).model_dump_json())["parameters"] is False
