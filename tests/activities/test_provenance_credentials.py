"""Signed statements about a picture, checked by C2PA's own reader."""

import io
import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import c2pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from activities.imaging.provenance.credentials import (
    CredentialsError,
    SigningIdentity,
    read_credentials,
    sign,
    sign_edit,
)
from activities.imaging.provenance.embedding import (
    carry_provenance,
    describe_provenance,
    read_provenance,
    write_provenance,
)
from activities.imaging.provenance.record import TRAINED_ALGORITHMIC_MEDIA
from tests.activities.provenance_files import (
    FULL,
    PLAIN,
    SAMPLES,
    WITHOUT_PARAMETERS,
    coded_picture,
    frames,
    parts,
)

SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


class Authority(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def named(name: str) -> x509.Name:
    attributes = (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    return x509.Name([x509.NameAttribute(attribute, name) for attribute in attributes])


def certificate(
    name: str, key: SigningKey, issuer: str, issuer_key: ec.EllipticCurvePrivateKey, days: int
) -> x509.Certificate:
    is_authority = name == issuer
    now = datetime.now(UTC)
    used = {"key_cert_sign", "crl_sign"} if is_authority else {"digital_signature"}
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{usage: usage in used for usage in USAGES}), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if not is_authority:
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
        builder = builder.add_extension(purposes, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def new_authority() -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    return Authority(key, certificate("Test CA", key, "Test CA", key, days=30))


AUTHORITY = new_authority()


def private_pem(key: SigningKey, password: bytes | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )


def chain_for(key: SigningKey, days: int = 10) -> bytes:
    leaf = certificate("Darkroom signer", key, "Test CA", AUTHORITY.key, days)
    return leaf.public_bytes(serialization.Encoding.PEM) + AUTHORITY.pem


KEY = ec.generate_private_key(ec.SECP256R1())
IDENTITY = SigningIdentity.from_pem(chain_for(KEY), private_pem(KEY))


def media_type(name: str) -> str:
    return f"image/{name}"


def signed(name: str) -> bytes:
    return sign(write_provenance(SAMPLES[name], FULL), media_type(name), IDENTITY)


def official_report(data: bytes) -> dict[str, object]:
    with c2pa.Reader(io.BytesIO(data)) as reader:
        report: dict[str, object] = json.loads(reader.json())
        return report


@pytest.mark.parametrize("name", PLAIN)
def test_a_new_picture_is_signed_as_made_by_a_model(name: str) -> None:
    data = signed(name)
    summary = read_credentials(data)
    assert summary.state == "valid"
    assert summary.signer == "Darkroom signer"
    assert summary.actions == ("c2pa.created",)
    assert summary.digital_source_type == TRAINED_ALGORITHMIC_MEDIA
    assert summary.has_parent is False
    assert summary.problems == ("signingCredential.untrusted",)
    assert official_report(data)["validation_state"] == "Valid"


@pytest.mark.parametrize("name", PLAIN)
def test_a_signature_touches_neither_picture_nor_record(name: str) -> None:
    data = signed(name)
    assert read_provenance(data) == FULL
    assert describe_provenance(data).content_credentials == "present"
    assert frames(data) == frames(SAMPLES[name])
    assert coded_picture(data) == coded_picture(SAMPLES[name])


def test_the_signer_is_trusted_by_those_who_know_the_authority() -> None:
    data = signed("jpeg")
    trusted = read_credentials(data, AUTHORITY.pem.decode())
    assert (trusted.state, trusted.problems) == ("trusted", ())
    assert read_credentials(data, new_authority().pem.decode()).state == "valid"


@pytest.mark.parametrize("name", PLAIN)
def test_the_removal_of_the_label_is_signed_with_the_labelled_picture_as_parent(name: str) -> None:
    parent = signed("png")
    target = carry_provenance(parent, SAMPLES[name])
    data = sign_edit(target, media_type(name), parent, "image/png", IDENTITY)
    summary = read_credentials(data)
    assert summary.state == "valid"
    assert summary.actions == ("c2pa.opened", "c2pa.edited")
    assert summary.has_parent is True
    assert read_provenance(data) == FULL
    manifests = official_report(data)["manifests"]
    assert isinstance(manifests, dict)
    # The parent's own statement is inside.
    assert len(manifests) == 2
    assert "c2pa.created" in json.dumps(manifests)


def test_neither_picture_is_stored_a_second_time_inside_of_the_signature() -> None:
    parent = signed("png")
    data = sign_edit(parent, "image/png", parent, "image/png", IDENTITY)
    assert "thumbnail" not in json.dumps(official_report(data))
    assert b"\xff\xd8\xff\xe0" not in data


@pytest.mark.parametrize("name", PLAIN)
def test_a_picture_that_was_changed_after_signing_is_found_out(name: str) -> None:
    data = signed(name)
    kind, body = max(coded_picture(data), key=lambda part: len(part[1]))
    assert kind
    at = data.index(body) + len(body) // 2
    changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    summary = read_credentials(changed)
    assert summary.state == "invalid"
    assert "assertion.dataHash.mismatch" in summary.problems


@pytest.mark.parametrize("name", PLAIN)
def test_a_signature_that_a_change_would_break_is_taken_out(name: str) -> None:
    data = signed(name)
    assert write_provenance(data, FULL) == data
    changed = write_provenance(data, WITHOUT_PARAMETERS)
    assert read_credentials(changed).state == "absent"
    assert describe_provenance(changed).content_credentials == "absent"
    assert changed == write_provenance(write_provenance(SAMPLES[name], FULL), WITHOUT_PARAMETERS)


@pytest.mark.parametrize("name", PLAIN)
def test_a_signature_is_not_carried_to_other_bytes(name: str) -> None:
    carried = carry_provenance(signed(name), SAMPLES[name])
    assert read_credentials(carried).state == "absent"
    assert read_provenance(carried) == FULL


@pytest.mark.parametrize("name", PLAIN)
def test_an_unsigned_picture_has_no_credentials(name: str) -> None:
    assert read_credentials(SAMPLES[name]).state == "absent"
    assert "C2PA" not in [kind for kind, _ in parts(SAMPLES[name])]


@pytest.mark.parametrize("data", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_has_credentials_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(CredentialsError, match="not readable"):
        read_credentials(data)


@pytest.mark.parametrize(
    "new_key",
    [
        lambda: ec.generate_private_key(ec.SECP384R1()),
        lambda: ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate,
        lambda: rsa.generate_private_key(65537, 2048),
    ],
    ids=["p384", "p521", "ed25519", "rsa"],
)
def test_every_usual_kind_of_key_signs(new_key: Callable[[], SigningKey]) -> None:
    key = new_key()
    identity = SigningIdentity.from_pem(chain_for(key), private_pem(key))
    assert read_credentials(sign(SAMPLES["jpeg"], "image/jpeg", identity)).state == "valid"


@pytest.mark.parametrize(
    ("chain", "key", "why"),
    [
        (b"", private_pem(KEY), "PEM certificate chain"),
        (b"no certificate", private_pem(KEY), "PEM certificate chain"),
        (chain_for(KEY), b"no key", "PEM private key"),
        (chain_for(KEY), private_pem(KEY, b"secret"), "unencrypted"),
        (AUTHORITY.pem + chain_for(KEY), private_pem(KEY), "doesn't belong to the first"),
        (chain_for(KEY), private_pem(AUTHORITY.key), "doesn't belong to the first"),
    ],
)
def test_a_signer_that_cannot_sign_is_refused_at_once(chain: bytes, key: bytes, why: str) -> None:
    with pytest.raises(CredentialsError, match=why):
        SigningIdentity.from_pem(chain, key)


def test_a_key_of_a_kind_that_the_standard_does_not_know_is_refused() -> None:
    key = ec.generate_private_key(ec.SECP256K1())
    with pytest.raises(CredentialsError, match="P-256"):
        SigningIdentity.from_pem(chain_for(key), private_pem(key))


def test_an_expired_certificate_does_not_sign() -> None:
    identity = SigningIdentity.from_pem(chain_for(KEY, days=-1), private_pem(KEY))
    with pytest.raises(CredentialsError, match="could not be signed"):
        sign(SAMPLES["png"], "image/png", identity)


def test_a_type_that_is_not_the_files_is_no_reason_to_write_a_broken_file() -> None:
    with pytest.raises(CredentialsError, match="could not be signed"):
        sign(SAMPLES["png"], "image/jpeg", IDENTITY)


def test_the_key_is_in_no_representation() -> None:
    assert repr(IDENTITY) == str(IDENTITY) == "SigningIdentity(es256)"


def test_nothing_is_fetched_for_a_file_that_keeps_its_credentials_elsewhere() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        elsewhere = f"http://127.0.0.1:{server.getsockname()[1]}/manifest"
        with pytest.raises(CredentialsError, match=elsewhere):
            read_credentials(with_credentials_at(elsewhere))
        with pytest.raises(BlockingIOError):
            server.accept()


def with_credentials_at(url: str) -> bytes:
    """A JPEG that only says where its credentials are."""
    target = io.BytesIO()
    created = {"action": "c2pa.created", "digitalSourceType": TRAINED_ALGORITHMIC_MEDIA}
    assertion = {"label": "c2pa.actions.v2", "data": {"actions": [created]}}
    signer_info = c2pa.C2paSignerInfo(b"es256", IDENTITY.certificates, IDENTITY.private_key, None)
    with c2pa.Builder({"assertions": [assertion]}) as builder:
        builder.set_no_embed()
        builder.set_remote_url(url)
        with c2pa.Signer.from_info(signer_info) as signer:
            builder.sign(signer, "image/jpeg", io.BytesIO(SAMPLES["jpeg"]), target)
    return target.getvalue()
