"""What the artifact store keeps of a tenant's callbacks: files that need no lock.

Below `config/callbacks/`, in a folder named by a hash, for a tenant's name may have characters that
a key must not have, and a file system may take `Anne` for `anne`. Every secret is a file of its
own, written once, so that many processes may add some at any time and all come to one view of them.
"""

import hashlib
import logging
import re
import secrets
from typing import TypeVar

from pydantic import Field, ValidationError, field_validator

from activities.artifacts import ArtifactLostError, ArtifactStore
from activities.callbacks.models import MAX_URL_LENGTH, CallbackEvents
from activities.callbacks.signing import key_of, new_secret
from activities.values import Model

_FOLDER = "config/callbacks"
_SECRET_NAME = re.compile(r"([0-9]{14})-(first|rotated)-[0-9a-f]{16}\.json")

logger = logging.getLogger("darkroom.callbacks")


class Endpoint(Model):
    """Where messages about all jobs of a tenant go: about each final state, or each transition."""

    url: str = Field(max_length=MAX_URL_LENGTH)
    events: CallbackEvents = "final"


class _KeptSecret(Model):
    secret: str = Field(repr=False)

    @field_validator("secret")
    @classmethod
    def _is_one(cls, secret: str) -> str:
        key_of(secret)
        return secret


M = TypeVar("M", bound=Model)


class SecretFile(Model):
    """A secret, with what its file's name says: when it was made, and whether by a rotation."""

    key: str
    made_at_ms: int
    is_rotated: bool
    secret: str = Field(repr=False)


class TenantFiles:
    """The files of one tenant."""

    def __init__(self, store: ArtifactStore, tenant: str) -> None:
        self._store = store
        self._folder = f"{_FOLDER}/{hashlib.sha256(tenant.encode()).hexdigest()}"

    async def secrets(self) -> list[SecretFile]:
        """All that can be read, the oldest first."""
        keys = await self._store.list(f"{self._folder}/secrets")
        read = [await self._secret(key) for key in sorted(keys)]
        return [file for file in read if file is not None]

    async def add_secret(self, made_at_ms: int, *, is_rotated: bool) -> None:
        """Make one more."""
        kind = "rotated" if is_rotated else "first"
        name = f"{made_at_ms:014}-{kind}-{secrets.token_hex(8)}.json"
        kept = _KeptSecret(secret=new_secret()).model_dump_json().encode()
        await self._store.put(f"{self._folder}/secrets/{name}", kept)

    async def remove_secret(self, file: SecretFile) -> None:
        """Remove one that counts no more."""
        await self._store.delete(file.key)

    async def endpoint(self) -> Endpoint | None:
        """The endpoint; None also where its file is damaged."""
        return await self._read(f"{self._folder}/endpoint.json", Endpoint)

    async def set_endpoint(self, endpoint: Endpoint) -> None:
        """Put it in the place of the one before."""
        data = endpoint.model_dump_json().encode()
        await self._store.put(f"{self._folder}/endpoint.json", data)

    async def remove_endpoint(self) -> None:
        """Remove it, if there is one."""
        await self._store.delete(f"{self._folder}/endpoint.json")

    async def _secret(self, key: str) -> SecretFile | None:
        match = _SECRET_NAME.fullmatch(key.rpartition("/")[2])
        kept = await self._read(key, _KeptSecret) if match else None
        if match is None or kept is None:
            return None
        return SecretFile(
            key=key, made_at_ms=int(match[1]), is_rotated=match[2] == "rotated", secret=kept.secret
        )

    async def _read(self, key: str, kind: type[M]) -> M | None:
        try:
            return kind.model_validate_json(await self._store.get(key))
        except ArtifactLostError:
            return None
        # Not logged with the error, which quotes what it couldn't read.
        except ValidationError:
            logger.warning("the file %s is damaged, and counts for nothing", key)
            return None
