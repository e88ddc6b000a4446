"""Content Credentials (C2PA): signed provenance, with the extra `c2pa` only.

A signature holds the time and chance, so that two of the same picture differ; and it holds for
the exact bytes of the file, so that signing is the last thing that happens to one.
"""

import io
from dataclasses import dataclass
from typing import Any, Self

import c2pa
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from pydantic import ValidationError

from activities.imaging.provenance.credentials_report import CredentialsReport, CredentialsSummary
from activities.imaging.provenance.record import SOFTWARE, TRAINED_ALGORITHMIC_MEDIA

_CURVES = {"secp256r1": "es256", "secp384r1": "es384", "secp521r1": "es512"}
# Nothing is fetched for a file that somebody sent, and no small copy of the picture is kept: the
# one of a parent would show the label that was removed.
_SETTINGS: dict[str, Any] = {
    "verify": {"remote_manifest_fetch": False, "ocsp_fetch": False},
    "builder": {"thumbnail": {"enabled": False}},
}


class CredentialsError(Exception):
    """Signing isn't possible, or what is in the file isn't readable; the message says why."""


@dataclass(frozen=True)
class SigningIdentity:
    """Who signs. The key is in no representation of it."""

    algorithm: str
    certificates: bytes
    private_key: bytes

    @classmethod
    def from_pem(cls, certificates: bytes, private_key: bytes) -> Self:
        """From a chain, the signer's own certificate first, and its unencrypted private key."""
        try:
            key = serialization.load_pem_private_key(private_key, password=None)
            leaf = x509.load_pem_x509_certificates(certificates)[0]
        # TypeError: the key is encrypted.
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise CredentialsError(
                "The signer needs a PEM certificate chain and an unencrypted PEM private key."
            ) from error
        if _public(leaf) != _public(key):
            raise CredentialsError("The private key doesn't belong to the first certificate.")
        return cls(_algorithm(key), certificates, private_key)

    def __repr__(self) -> str:
        return f"SigningIdentity({self.algorithm})"


def _public(holder: x509.Certificate | PrivateKeyTypes) -> bytes:
    return holder.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _algorithm(key: PrivateKeyTypes) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return "ed25519"
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= 2048:
        return "ps256"
    raise CredentialsError(
        "The key must be EC P-256, P-384 or P-521, Ed25519, or RSA of 2048 bits."
    )


def sign(data: bytes, media_type: str, identity: SigningIdentity) -> bytes:
    """The file with a signed statement that a trained model made the picture."""
    created = {"action": "c2pa.created", "digitalSourceType": TRAINED_ALGORITHMIC_MEDIA}
    return _signed(data, media_type, identity, [created], None)


def sign_edit(
    data: bytes, media_type: str, parent: bytes, parent_media_type: str, identity: SigningIdentity
) -> bytes:
    """The file with a signed statement that it is the parent with its visible label removed.
    What the parent's own credentials say, and whether they hold, is kept inside."""
    opened: dict[str, Any] = {"action": "c2pa.opened", "parameters": {"ingredientIds": ["parent"]}}
    edited = {"action": "c2pa.edited", "description": "The visible label was removed."}
    actions = [opened, edited]
    return _signed(data, media_type, identity, actions, (parent, parent_media_type))


def _signed(
    data: bytes,
    media_type: str,
    identity: SigningIdentity,
    actions: list[dict[str, Any]],
    parent: tuple[bytes, str] | None,
) -> bytes:
    manifest = {
        "claim_generator_info": [{"name": SOFTWARE}],
        "format": media_type,
        "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": actions}}],
    }
    target = io.BytesIO()
    try:
        with (
            c2pa.Context.from_dict(_SETTINGS) as context,
            c2pa.Builder(manifest, context) as builder,
        ):
            if parent is not None:
                ingredient = {"relationship": "parentOf", "label": "parent"}
                builder.add_ingredient(ingredient, parent[1], io.BytesIO(parent[0]))
            with _signer(identity) as signer:
                builder.sign(signer, media_type, io.BytesIO(data), target)
    except c2pa.C2paError as error:
        raise CredentialsError(f"The picture could not be signed: {error}") from error
    return target.getvalue()


def _signer(identity: SigningIdentity) -> c2pa.Signer:
    # No timestamp authority: it would be a call to the network for every picture.
    return c2pa.Signer.from_info(
        c2pa.C2paSignerInfo(identity.algorithm, identity.certificates, identity.private_key, None)
    )


def read_credentials(data: bytes, trust_anchors: str = "") -> CredentialsSummary:
    """What the file's credentials say. `trust_anchors` are PEM certificates of authorities.
    Raises `CredentialsError` where neither yes nor no can be said."""
    settings = {
        **_SETTINGS,
        **({"trust": {"trust_anchors": trust_anchors}} if trust_anchors else {}),
    }
    try:
        with (
            c2pa.Context.from_dict(settings) as context,
            c2pa.Reader(None, io.BytesIO(data), context=context) as reader,
        ):
            return CredentialsReport.model_validate_json(reader.json()).summary()
    except c2pa.C2paError.ManifestNotFound:
        return CredentialsSummary(state="absent")
    # ValidationError: a report of a shape that is not known.
    except (c2pa.C2paError, ValidationError) as error:
        raise CredentialsError(f"The credentials are not readable: {error}") from error
