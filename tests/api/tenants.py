"""Tenants and their keys, for tests: an application over a store that has keys."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI

from activities.artifacts import ArtifactStore
from api.keys import add_key
from tests.api.conftest import asking


def bearer(text: str) -> dict[str, str]:
    """The header that sends a key."""
    return {"authorization": f"Bearer {text}"}


async def key_for(store: ArtifactStore, tenant: str) -> str:
    """A new key of a tenant."""
    return (await add_key(store, tenant))[1]


@asynccontextmanager
async def asking_as(app: FastAPI, text: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that sends a key with every request."""
    async with asking(app) as api:
        api.headers.update(bearer(text))
        yield api
