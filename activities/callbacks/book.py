"""What is known of each tenant's callbacks, by all API processes and workers alike."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from activities.artifacts import ArtifactStore
from activities.callbacks.tenant_files import Endpoint, SecretFile, TenantFiles
from activities.errors import ErrorKind, WorkError
from activities.fresh import Fresh

T = TypeVar("T")

_LOOK_EVERY_SECONDS = 5.0
# With a store that can't be read, what is known counts so long.
_TRUSTED_SECONDS = 60.0
_MAX_TENANTS = 1000

_OLD_SECRET_SIGNS_MS = 24 * 3600 * 1000
# Every signature makes the header longer; a receiver may refuse one that has too many.
_MAX_SECRETS = 8


class RotatedTooOftenError(Exception):
    """Too many old secrets still sign: another would make messages that no receiver takes."""


class CallbackBook:
    """Signing secrets and endpoints. Raises `WorkError` where the store can't be read or written.

    A tenant's first secret is made when it is first needed. Where several processes do it at once,
    all of these sign, and the oldest is shown to everybody. After a rotation the new one is shown,
    and the others sign for another 24 h.
    """

    def __init__(self, store: ArtifactStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        # A tenant's is there as long as somebody rotates, so that the bound holds for many at once.
        self._rotating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._known_secrets = _Known(self.secrets)
        self._known_endpoints = _Known(self.endpoint)

    async def secrets(self, tenant: str) -> Sequence[str]:
        """All that sign now, first the one to show. Made here if there is none."""
        files = await self._secret_files(tenant)
        return [file.secret for file in _counting(files, self._now_ms())]

    async def rotate(self, tenant: str) -> str:
        """The secret to show from now on; raises `RotatedTooOftenError`."""
        async with self._rotating.setdefault(tenant, asyncio.Lock()):
            await self._rotate(tenant)
        self._known_secrets.forget(tenant)
        return (await self.secrets(tenant))[0]

    async def endpoint(self, tenant: str) -> Endpoint | None:
        """Where messages about all jobs of the tenant go, if anywhere."""
        return await TenantFiles(self._store, tenant).endpoint()

    async def set_endpoint(self, tenant: str, endpoint: Endpoint) -> None:
        """Set or replace it. Nothing is checked here."""
        await TenantFiles(self._store, tenant).set_endpoint(endpoint)
        self._known_endpoints.forget(tenant)

    async def remove_endpoint(self, tenant: str) -> None:
        """Remove it, if there is one."""
        await TenantFiles(self._store, tenant).remove_endpoint()
        self._known_endpoints.forget(tenant)

    async def known_secrets(self, tenant: str) -> Sequence[str]:
        """As `secrets`, some seconds old, or a minute with a store that can't be read."""
        return await self._known_secrets.of(tenant)

    async def known_endpoint(self, tenant: str) -> Endpoint | None:
        """As `endpoint`, some seconds old, or a minute with a store that can't be read."""
        return await self._known_endpoints.of(tenant)

    async def _rotate(self, tenant: str) -> None:
        owner = TenantFiles(self._store, tenant)
        files, now = await owner.secrets(), self._now_ms()
        counting = _counting(files, now)
        if len(counting) >= _MAX_SECRETS:
            raise RotatedTooOftenError
        # After all others, also where clocks differ.
        latest = max((file.made_at_ms for file in files), default=0)
        await owner.add_secret(max(now, latest + 1), is_rotated=True)
        for file in files:
            if file not in counting:
                await owner.remove_secret(file)

    async def _secret_files(self, tenant: str) -> list[SecretFile]:
        owner = TenantFiles(self._store, tenant)
        files = await owner.secrets()
        if not files:
            await owner.add_secret(self._now_ms(), is_rotated=False)
            files = await owner.secrets()
        return files

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _counting(files: Sequence[SecretFile], now_ms: int) -> list[SecretFile]:
    """Those that sign now, the one to show first.

    A first secret is superseded by any rotation, whatever the clock of its maker said.
    """
    firsts = [file for file in files if not file.is_rotated]
    rotated = [file for file in files if file.is_rotated]
    if not rotated:
        return firsts
    superseded = [(file, rotated[0].made_at_ms) for file in firsts]
    superseded += [(file, later.made_at_ms) for file, later in pairwise(rotated)]
    old = [file for file, since_ms in superseded if now_ms - since_ms < _OLD_SECRET_SIGNS_MS]
    return [rotated[-1], *reversed(old)]


class _Known(Generic[T]):
    """What was read of each tenant: the latest ones, none of them old."""

    def __init__(self, read: Callable[[str], Awaitable[T]]) -> None:
        self._read = read
        self._tenants: dict[str, Fresh[T]] = {}

    async def of(self, tenant: str) -> T:
        fresh = self._tenants.pop(tenant, None) or Fresh(
            lambda: self._read(tenant), _LOOK_EVERY_SECONDS
        )
        self._tenants[tenant] = fresh
        if len(self._tenants) > _MAX_TENANTS:
            self._tenants.pop(next(iter(self._tenants)))
        await fresh.look()
        if fresh.age_seconds > _TRUSTED_SECONDS:
            raise WorkError(ErrorKind.STORAGE, "the settings of callbacks could not be read")
        # Read at least once, and so a `T`, which may be None.
        return fresh.value  # type: ignore[return-value]

    def forget(self, tenant: str) -> None:
        """What this process has just changed, it reads anew."""
        self._tenants.pop(tenant, None)
