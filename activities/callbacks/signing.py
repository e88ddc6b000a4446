"""Signatures of messages, as Standard Webhooks wants them, and the secrets they are made with."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

_PREFIX = "whsec_"
_NEW_BYTES = 32
_MIN_BYTES, _MAX_BYTES = 24, 64


def new_secret() -> str:
    """A secret of 256 random bits."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_NEW_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """The key that a secret stands for; raises `ValueError`, which doesn't tell the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    # Told below, where nothing of the secret is repeated.
    except ValueError:
        key = b""
    if not secret.startswith(_PREFIX) or not _MIN_BYTES <= len(key) <= _MAX_BYTES:
        raise ValueError(f"a secret is {_PREFIX} and {_MIN_BYTES} to {_MAX_BYTES} bytes in base64")
    return key


def signed_headers(
    keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The three headers of a message. Each key signs, so that a receiver needs to know one."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = [hmac.digest(key, signed, hashlib.sha256) for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(
            f"v1,{base64.b64encode(digest).decode()}" for digest in digests
        ),
    }
