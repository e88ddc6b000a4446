"""Signed links to images, which work in an `<img>` without a key, and expire.

The signature is an HMAC-SHA256 over method, job, which image, and expiry. Its key is made by
whichever API process needs it first. Where several do at once, each puts its own beside the
others', the oldest signs, and all are recognised: so the processes agree without a lock.
"""

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field, ValidationError

from activities.artifacts import ArtifactLostError, ArtifactStore
from activities.fresh import Fresh
from activities.values import Model
from api.refusals import LinkExpired, LinkInvalid, LinksUnreadable

_FOLDER = "config/links"
_LOOK_EVERY_SECONDS = 60.0
# A signature that is not known may be by the key of a process that has just started.
_LOOK_AGAIN_SECONDS = 2.0
_EXPIRES = re.compile(r"[0-9]{1,12}")


class _LinkKey(Model):
    """What a file holds: 256 random bits."""

    key: str = Field(pattern="^[0-9a-f]{64}$")


@dataclass(frozen=True)
class LinkQuery:
    """What a link says of itself. `expires` is Unix time, as it stands in the link."""

    job_id: str
    final: bool
    expires: str
    signature: str


@dataclass(frozen=True)
class Signer:
    """Signs links that end at one time."""

    key: bytes
    expires: int

    def query(self, job_id: str, *, final: bool = False) -> str:
        """The query of the link to a job's image, or to the last one of its chain."""
        signature = _signature(self.key, job_id, final, str(self.expires))
        asked = "final=true&" if final else ""
        return f"{asked}expires={self.expires}&signature={signature}"


class Links:
    """Signs and recognises links, which are good for `seconds`, and up to half as long again."""

    def __init__(
        self, store: ArtifactStore, seconds: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._seconds = seconds
        self._clock = clock
        self._fresh = Fresh(self._read, _LOOK_EVERY_SECONDS)

    async def signer(self) -> Signer | None:
        """Signs links from now on; None while there is no key for it."""
        await self._fresh.look(None if self._fresh.value else _LOOK_AGAIN_SECONDS)
        if not self._fresh.value:
            return None
        return Signer(self._fresh.value[0], self._expiry())

    def _expiry(self) -> int:
        """On a coarse grid, so that a job keeps its link, and its entity tag, for a while."""
        grid = max(1, self._seconds // 2)
        return -int(-(self._clock() + self._seconds) // grid) * grid

    async def check(self, link: LinkQuery) -> None:
        """Raises `LinkInvalid`, or `LinkExpired` where it was one of ours."""
        if not self._is_signed(link):
            await self._fresh.look(_LOOK_AGAIN_SECONDS)
        if not self._fresh.value:
            raise LinksUnreadable
        if not self._is_signed(link):
            raise LinkInvalid
        if int(link.expires) <= self._clock():
            raise LinkExpired

    def _is_signed(self, link: LinkQuery) -> bool:
        if not _EXPIRES.fullmatch(link.expires):
            return False
        given = link.signature.encode()
        signatures = (
            _signature(key, link.job_id, link.final, link.expires)
            for key in self._fresh.value or ()
        )
        return any(hmac.compare_digest(given, signature.encode()) for signature in signatures)

    async def _read(self) -> list[bytes]:
        """All keys, oldest first; makes one where there is none."""
        keys = await self._keys()
        if not keys:
            name = f"{int(time.time() * 1000):014}-{secrets.token_hex(8)}.json"
            made = _LinkKey(key=secrets.token_hex(32))
            await self._store.put(f"{_FOLDER}/{name}", made.model_dump_json().encode())
            keys = await self._keys()
        return keys

    async def _keys(self) -> list[bytes]:
        read = [await self._key(name) for name in await self._store.list(_FOLDER)]
        return [key for key in read if key is not None]

    async def _key(self, name: str) -> bytes | None:
        try:
            kept = _LinkKey.model_validate_json(await self._store.get(name))
        # One that is damaged signs nothing, and what it signed is invalid.
        except (ArtifactLostError, ValidationError):
            return None
        return bytes.fromhex(kept.key)


def _signature(key: bytes, job_id: str, final: bool, expires: str) -> str:
    # HEAD is answered as GET is.
    text = f"GET\n{job_id}\n{'final' if final else 'own'}\n{expires}"
    digest = hmac.digest(key, text.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
