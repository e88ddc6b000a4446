"""What a file says already stays beside the new record, or gives way to it."""

import struct
import zlib

import pyexiv2
import pytest
from PIL import Image

from activities.imaging.provenance.embedding import (
    describe_provenance,
    read_provenance,
    write_provenance,
)
from tests.activities.provenance_files import (
    FULL,
    PARAMETERS,
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

RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
FOREIGN = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Other 1.0"><!-- old -->
 <rdf:RDF {RDF}>
  <rdf:Description rdf:about="uuid:1" xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:e="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" xmlns:o="urn:other/" o:short="1 &lt; 2"
    e:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/digitalCapture">
   <dc:title><rdf:Alt><rdf:li xml:lang="x-default">Fox &amp; hen</rdf:li></rdf:Alt></dc:title>
   <o:long>{{}}</o:long>
  </rdf:Description>
  <rdf:Description rdf:about="uuid:1" xmlns:TC260="http://www.tc260.org.cn/ns/AIGC/1.0/">
   <TC260:AIGC>{{{{"Label":"3"}}}}</TC260:AIGC>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>"""


def with_xmp(name: str, packet: str) -> bytes:
    if name == "PNG":
        body = b"XML:com.adobe.xmp\0\0\0\0\0" + packet.encode()
        return with_chunk(SAMPLES["png"], b"iTXt", body)
    return encoded(name, xmp=packet.encode())


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
def test_properties_of_others_stay_and_ours_are_replaced(name: str) -> None:
    written = write_provenance(with_xmp(name, FOREIGN.format("x")), FULL)
    assert read_provenance(written) == FULL
    assert write_provenance(written, FULL) == written
    with pyexiv2.ImageData(written) as image:
        xmp = image.read_xmp()
    assert xmp["Xmp.dc.title"] == {'lang="x-default"': "Fox & hen"}
    assert xmp["Xmp.o.short"] == "1 < 2"
    assert xmp["Xmp.o.long"] == "x"
    assert xmp["Xmp.iptcExt.DigitalSourceType"].endswith("trainedAlgorithmicMedia")
    packet = opened(written).info["xmp"]
    assert packet.count(b"DigitalSourceType>") == 2
    assert packet.count(b"digitalCapture") == 0


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
def test_a_large_foreign_packet_stays_whole(name: str) -> None:
    before = with_xmp(name, FOREIGN.format("y" * 60_000))
    written = write_provenance(before, FULL)
    assert write_provenance(written, FULL) == written
    assert read_provenance(written) == FULL
    off = write_provenance(written, WITHOUT_PARAMETERS)
    assert off.count(b"y" * 60_000) == 1
    assert b"Fox &amp; hen" in off


@pytest.mark.parametrize(
    "packet",
    [
        "<x",
        "",
        "<a/>",
        '<!DOCTYPE a [<!ENTITY b "c">]><x:xmpmeta xmlns:x="adobe:ns:meta/">&b;</x:xmpmeta>',
    ],
)
@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
def test_a_packet_that_nobody_can_read_is_replaced(name: str, packet: str) -> None:
    assert read_provenance(write_provenance(with_xmp(name, packet or " "), FULL)) == FULL


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
def test_colour_profile_and_exif_stay(name: str) -> None:
    before = encoded(name, exif=camera_exif(), icc_profile=PROFILE)
    written = write_provenance(before, FULL)
    image = opened(written)
    assert image.info["icc_profile"] == PROFILE
    exif = image.getexif()
    assert exif[0x0112] == 6
    assert exif[0x010F] == "Camera & Sons"
    assert exif.get_ifd(0x8769)[0x829A] == pytest.approx(1 / 125)
    assert coded_picture(written) == coded_picture(before)
    assert write_provenance(written, FULL) == written
    with pyexiv2.ImageData(write_provenance(written, WITHOUT_PARAMETERS)) as read:
        assert read.read_exif()["Exif.Image.Make"] == "Camera & Sons"


def test_exif_in_the_other_order_of_bytes_takes_the_parameters_as_well() -> None:
    make = struct.pack("<HHI4s", 0x010F, 2, 4, b"Cam\0")
    tiff = b"II*\0" + struct.pack("<IH", 8, 1) + make + b"\0" * 4
    written = write_provenance(encoded("JPEG", exif=b"Exif\0\0" + tiff), FULL)
    exif = opened(written).getexif()
    assert exif[0x010F] == "Cam"
    comment = exif.get_ifd(0x8769)[0x9286]
    assert comment[8:].decode("utf-16-le") == PARAMETERS.to_text()
    off = write_provenance(written, WITHOUT_PARAMETERS)
    assert "Steps".encode("utf-16-le") not in off


@pytest.mark.parametrize("name", ["JPEG", "WEBP"])
def test_a_comment_that_is_not_about_parameters_is_somebodys(name: str) -> None:
    exif = camera_exif(b"ASCII\0\0\0holiday at sea")
    for provenance in (FULL, WITHOUT_PARAMETERS):
        written = write_provenance(encoded(name, exif=exif), provenance)
        kept = opened(written).getexif().get_ifd(0x8769)[0x9286]
        assert kept == b"ASCII\0\0\0holiday at sea"
        assert read_provenance(written) == provenance


def test_a_jpeg_without_room_in_exif_has_the_parameters_as_its_comment() -> None:
    exif = camera_exif(b"ASCII\0\0\0holiday at sea")
    written = write_provenance(encoded("JPEG", exif=exif, comment=b"by me"), FULL)
    comments = [body for kind, body in parts(written) if kind == "FE"]
    assert sorted(comments) == sorted([b"by me", PARAMETERS.to_text().encode()])
    assert write_provenance(written, FULL) == written
    off = write_provenance(written, WITHOUT_PARAMETERS)
    assert [body for kind, body in parts(off) if kind == "FE"] == [b"by me"]


@pytest.mark.parametrize(
    "keyword", ["prompt", "workflow", "invokeai_metadata", "invokeai_graph", "sd-metadata", "Dream"]
)
def test_every_known_place_of_a_prompt_is_emptied(keyword: str) -> None:
    before = with_texts(**{keyword: "secret"})
    assert describe_provenance(before).parameters is True
    assert b"secret" not in write_provenance(before, WITHOUT_PARAMETERS)


def test_entries_of_exif_stay_in_the_order_that_the_standard_demands() -> None:
    exif = Image.Exif()
    exif[0x8298] = "me"
    exif[0x9C9C] = b"later"
    exif.get_ifd(0x8769)[0xA430] = "owner"
    written = write_provenance(encoded("WEBP", exif=exif.tobytes()), FULL)
    (tiff,) = (body for kind, body in parts(written) if kind == "EXIF")
    order = "<" if tiff[:2] == b"II" else ">"
    first = struct.unpack_from(order + "I", tiff, 4)[0]
    for directory in (first, opened(written).getexif()[0x8769]):
        (count,) = struct.unpack_from(order + "H", tiff, directory)
        entries = range(directory + 2, directory + 2 + 12 * count, 12)
        tags = [struct.unpack_from(order + "H", tiff, at)[0] for at in entries]
        assert tags == sorted(tags)
        assert count >= 2


def test_texts_of_others_stay_and_the_engines_prompt_goes_when_it_is_switched_off() -> None:
    before = with_texts(Author="me", prompt='{"secret":1}', workflow='{"secret":2}')
    assert describe_provenance(before).parameters is True
    written = write_provenance(before, WITHOUT_PARAMETERS)
    assert describe_provenance(written).parameters is False
    assert b"secret" not in written
    assert opened(written).info["Author"] == "me"
    assert opened(write_provenance(before, FULL)).info["prompt"] == '{"secret":1}'


@pytest.mark.parametrize("name", ["JPEG", "WEBP"])
def test_an_engines_graph_inside_exif_goes_when_parameters_are_switched_off(name: str) -> None:
    exif = Image.Exif()
    exif[0x010F] = 'workflow:{"secret":1}'
    exif[0x0110] = 'prompt:{"secret":2}'
    before = encoded(name, exif=exif.tobytes())
    assert describe_provenance(before).parameters is True
    written = write_provenance(before, WITHOUT_PARAMETERS)
    assert b"secret" not in written
    assert describe_provenance(written).parameters is False
    assert opened(written).getexif()[0x010F] in ("", "\0")


def test_compressed_text_of_an_engine_is_read_and_replaced() -> None:
    packed = zlib.compress(PARAMETERS.to_text().encode())
    before = with_chunk(SAMPLES["png"], b"iTXt", b"parameters\0\1\0\0\0" + packed)
    assert describe_provenance(before).parameters is True
    written = write_provenance(before, FULL)
    assert [k for k, body in parts(written) if body.startswith(b"parameters\0")] == ["iTXt"]
    assert read_provenance(written) == FULL


def test_an_older_engines_parameters_behind_the_pixels_are_replaced() -> None:
    end = SAMPLES["png"].rindex(png_chunk(b"IEND", b""))
    late = png_chunk(b"tEXt", b"parameters\0old\nSteps: 1, Seed: 2")
    before = SAMPLES["png"][:end] + late + SAMPLES["png"][end:]
    assert opened(write_provenance(before, FULL)).info["parameters"] == PARAMETERS.to_text()
    assert b"Steps" not in write_provenance(before, WITHOUT_PARAMETERS)


@pytest.mark.parametrize("name", ["png", "webp"])
def test_what_follows_the_image_stays(name: str) -> None:
    written = write_provenance(SAMPLES[name] + b"more", FULL)
    assert written.endswith(b"more")
    assert read_provenance(written) == FULL


def test_a_jpegs_further_pictures_are_still_found() -> None:
    before = encoded("MPO", save_all=True, append_images=[picture(seed=3)])
    assert len(frames(before)) == 2
    written = write_provenance(before, FULL)
    assert frames(written) == frames(before)
    assert read_provenance(written) == FULL
