"""The keys as an API process knows them, at most seconds behind the artifact store."""

import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from activities.artifacts import ArtifactStore
from activities.errors import WorkError
from activities.fresh import Fresh
from api.keys import ApiKey, hash_of, key_id_of, list_key_files, read_key

_LOOK_EVERY_SECONDS = 2.0
# What is older says nothing about a key that it doesn't have.
_TELLS_OF_ABSENCE_SECONDS = 5.0
# With a store that can't be read, the keys that are known count so long.
_TRUSTED_SECONDS = 3600.0
# Files don't change unless by hand: with more of them, they are read again in turns.
_READ_AGAIN_AT_A_TIME = 20

_NO_KEY = f"dk_{'0' * 12}_{'0' * 64}"
_NO_HASH = "0" * 64

logger = logging.getLogger("darkroom.api")


@dataclass(frozen=True)
class _Known:
    """What one look saw. `unreadable`: files that are there, and that the store doesn't give."""

    keys: Mapping[str, ApiKey | None] = field(default_factory=dict)
    revoked: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()
    is_any: bool = False


class KeysUnknownError(Exception):
    """The store can't be read: nobody can say whether this key counts."""


class KeyRing:
    """All keys. Once it has seen any, the last one's going doesn't open what they closed.

    `may_be_open`: whether everybody is let in where there has never been a key.
    """

    def __init__(self, store: ArtifactStore, *, may_be_open: bool) -> None:
        self._store = store
        self._may_be_open = may_be_open
        self._had_any = False
        self._turn = 0
        self._fresh = Fresh(self._read, _LOOK_EVERY_SECONDS)

    async def look(self) -> None:
        """Look for changes, if it is time to; afterwards the properties tell."""
        await self._fresh.look()

    @property
    def is_known(self) -> bool:
        """Whether the store could ever be read."""
        return self._fresh.value is not None

    @property
    def has_keys(self) -> bool:
        """Whether there are keys, or have been, be they revoked, expired or damaged."""
        return self._had_any

    @property
    def is_open(self) -> bool:
        """Whether no key is needed."""
        return self.is_known and self._may_be_open and not self._had_any

    def tenant_of(self, text: str | None) -> str | None:
        """Whose key it is; None for anything that counts for nobody, and in the same time.

        Raises `KeysUnknownError` where only the store could tell.
        """
        known = self._fresh.value or _Known()
        key_id = key_id_of(text) if text else None
        key = known.keys.get(key_id) if key_id else None
        digest = hash_of(text if text and key_id else _NO_KEY)
        is_same = hmac.compare_digest(digest, key.sha256 if key else _NO_HASH)
        is_over = key_id in known.revoked or (key is not None and key.has_expired(_now()))
        is_trusted = self._fresh.age_seconds <= _TRUSTED_SECONDS
        if key and is_same and is_trusted and not is_over:
            return key.tenant
        is_current = self._fresh.age_seconds <= _TELLS_OF_ABSENCE_SECONDS
        if key_id and (not is_current or key_id in known.unreadable):
            raise KeysUnknownError
        return None

    async def _read(self) -> _Known:
        files = await list_key_files(self._store)
        before = self._fresh.value or _Known()
        # At once, whatever else can't be read.
        self._had_any = self._had_any or files.any_at_all
        keys = {key_id: before.keys.get(key_id) for key_id in files.ids}
        unreadable = before.unreadable & files.ids
        for key_id in self._to_read(files.ids - before.keys.keys(), before.keys, files.ids):
            try:
                keys[key_id] = await read_key(self._store, key_id)
            except WorkError as error:
                logger.warning("the API key %s can't be read: %s", key_id, error.message)
                unreadable |= {key_id}
            else:
                unreadable -= {key_id}
                _warn_of_damage(key_id, keys[key_id], before)
        return _Known(keys, files.revoked, unreadable, files.any_at_all)

    def _to_read(
        self, new: frozenset[str], known: Mapping[str, object], there: frozenset[str]
    ) -> list[str]:
        again = sorted(there & known.keys())
        start = self._turn % len(again) if again else 0
        self._turn = start + _READ_AGAIN_AT_A_TIME
        return [*new, *(again[start:] + again[:start])[:_READ_AGAIN_AT_A_TIME]]


def _warn_of_damage(key_id: str, key: ApiKey | None, before: _Known) -> None:
    is_news = before.keys.get(key_id) is not None or key_id not in before.keys
    if key is None and is_news:
        logger.warning("the file of the API key %s is damaged: it counts for nobody", key_id)


def _now() -> datetime:
    return datetime.now(UTC)
