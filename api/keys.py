"""API keys: their text, and the files in the artifact store that all API processes read.

A key is `dk_<id>_<secret>`. Its file is written once, and revoking it writes another one beside it:
both are atomic, in any order and however many do it. The file has the SHA-256 of the key's text. A
slow hash would be of no use: it makes guessing dear where a person chose the secret, and of 256
random bits nobody guesses any.
"""

import hashlib
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

from pydantic import Field, ValidationError

from activities.artifacts import ArtifactLostError, ArtifactStore
from activities.values import Model, UtcTime
from workflows.messages import Tenant

_FOLDER = "config/keys"
_ID = r"[0-9a-f]{12}"
_KEY = re.compile(rf"dk_({_ID})_[0-9a-f]{{64}}")
_FILE = re.compile(rf"{_FOLDER}/({_ID})\.json")
_MARK = re.compile(rf"{_FOLDER}/({_ID})\.revoked\.json")

MAX_NAME_LENGTH = 100

_KeyName = Annotated[str, Field(max_length=MAX_NAME_LENGTH)]


class ApiKey(Model):
    """What is kept of a key: all but its text."""

    id: str = Field(pattern=f"^{_ID}$")
    tenant: Tenant
    name: _KeyName = ""
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    created_at: UtcTime
    expires_at: UtcTime | None = None

    def has_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


class Revocation(Model):
    """That a key counts no more."""

    revoked_at: UtcTime


class KeyFiles(NamedTuple):
    """Which keys there are, damaged ones too, and which were revoked.

    `any_at_all` also where nothing is left but a file that nobody can make sense of.
    """

    ids: frozenset[str]
    revoked: frozenset[str]
    any_at_all: bool


def key_id_of(text: str) -> str | None:
    """The id in a key's text; None where it is no such text."""
    match = _KEY.fullmatch(text)
    return match[1] if match else None


def is_key_id(text: str) -> bool:
    """Whether a key could have this id."""
    return re.fullmatch(_ID, text) is not None


def hash_of(text: str) -> str:
    """What is kept of a key's text."""
    return hashlib.sha256(text.encode()).hexdigest()


async def add_key(
    store: ArtifactStore, tenant: str, name: str = "", lifetime: timedelta | None = None
) -> tuple[ApiKey, str]:
    """Make a key; its text is told here and never again. Raises pydantic's `ValidationError`."""
    key_id, now = secrets.token_hex(6), datetime.now(UTC)
    text = f"dk_{key_id}_{secrets.token_hex(32)}"
    key = ApiKey(
        id=key_id,
        tenant=tenant,
        name=name,
        sha256=hash_of(text),
        created_at=now,
        expires_at=now + lifetime if lifetime else None,
    )
    await store.put(f"{_FOLDER}/{key_id}.json", key.model_dump_json(indent=2).encode())
    return key, text


async def revoke_key(store: ArtifactStore, key_id: str) -> bool:
    """Revoke a key, also one whose file is damaged; False if there is none of this id."""
    files = await list_key_files(store)
    if key_id in files.ids and key_id not in files.revoked:
        mark = Revocation(revoked_at=datetime.now(UTC))
        await store.put(f"{_FOLDER}/{key_id}.revoked.json", mark.model_dump_json().encode())
    return key_id in files.ids


async def list_key_files(store: ArtifactStore) -> KeyFiles:
    """Which keys there are; one call to the store."""
    names = await store.list(_FOLDER)
    return KeyFiles(
        frozenset(match[1] for name in names if (match := _FILE.fullmatch(name))),
        frozenset(match[1] for name in names if (match := _MARK.fullmatch(name))),
        bool(names),
    )


async def read_key(store: ArtifactStore, key_id: str) -> ApiKey | None:
    """The key, or None if its file is damaged, is of another key, or is gone."""
    try:
        key = ApiKey.model_validate_json(await store.get(f"{_FOLDER}/{key_id}.json"))
    except (ArtifactLostError, ValidationError):
        return None
    return key if key.id == key_id else None
