"""What routes take from the application, and the conditional-request headers."""

import asyncio
import hashlib
from typing import Annotated

from fastapi import Depends, Header, Request

from api.addresses import Addresses
from api.bulk import Bulks
from api.callbacks import JobCallbacks, TenantCallbacks
from api.chains import Chains
from api.control import JobControl
from api.fleet import Fleet
from api.head import is_head
from api.jobs import Jobs
from api.key_ring import KeyRing
from api.links import Links
from api.listening import Listening
from api.lists import JobLists

# All are coroutines, though none but one waits for anything: FastAPI hands plain functions to a
# thread, one after another, which takes a request longer than all that they do.


def _jobs_of(request: Request) -> Jobs:
    """The jobs of whoever asks."""
    jobs: Jobs = request.app.state.jobs
    return jobs.of(request.state.caller, _base_url(request))


async def _jobs(request: Request) -> Jobs:
    return _jobs_of(request)


async def _control(request: Request) -> JobControl:
    return JobControl(_jobs_of(request))


async def _chains(request: Request) -> Chains:
    return Chains(_jobs_of(request), request.app.state.store)


async def _lists(request: Request) -> JobLists:
    lists: JobLists = request.app.state.lists
    return lists


async def _bulks(request: Request) -> Bulks:
    """The bulk operations of whoever asks."""
    state = request.app.state
    return Bulks(state.client, request.state.caller, state.bulk_room)


async def _fleet(request: Request) -> Fleet:
    fleet: Fleet = request.app.state.fleet
    return fleet


async def _listening(request: Request) -> Listening:
    return Listening(_jobs_of(request), request.app.state.watches)


async def _job_callbacks(request: Request) -> JobCallbacks:
    return JobCallbacks(_jobs_of(request), request.app.state.deliveries)


async def _tenant_callbacks(request: Request) -> TenantCallbacks:
    state = request.app.state
    return TenantCallbacks(request.state.caller.tenant, state.callback_book, state.receivers)


async def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _is_head(request: Request) -> bool:
    return is_head(request.scope)


def _base_url(request: Request) -> str:
    """Where clients reach this API: as configured, or as this client did."""
    configured: str = request.app.state.public_url
    return configured or str(request.base_url).rstrip("/")


async def _addresses(request: Request) -> Addresses:
    """With signed links to images, unless everybody is let in anyway."""
    keys: KeyRing = request.app.state.keys
    links: Links = request.app.state.links
    signer = None if keys.is_open else await links.signer()
    return Addresses(_base_url(request), signer)


async def _stopping(request: Request) -> asyncio.Event:
    stopping: asyncio.Event = request.app.state.stopping
    return stopping


JobsDependency = Annotated[Jobs, Depends(_jobs)]
ControlDependency = Annotated[JobControl, Depends(_control)]
ChainsDependency = Annotated[Chains, Depends(_chains)]
ListsDependency = Annotated[JobLists, Depends(_lists)]
BulksDependency = Annotated[Bulks, Depends(_bulks)]
FleetDependency = Annotated[Fleet, Depends(_fleet)]
ListeningDependency = Annotated[Listening, Depends(_listening)]
JobCallbacksDependency = Annotated[JobCallbacks, Depends(_job_callbacks)]
TenantCallbacksDependency = Annotated[TenantCallbacks, Depends(_tenant_callbacks)]
ClientAddress = Annotated[str, Depends(_address)]
IsHead = Annotated[bool, Depends(_is_head)]
AddressesDependency = Annotated[Addresses, Depends(_addresses)]
Stopping = Annotated[asyncio.Event, Depends(_stopping)]
IfNoneMatch = Annotated[
    str | None,
    Header(description="Entity tags that the client has: 304 if the answer would be the same"),
]


def entity_tag(body: bytes) -> str:
    """A strong entity tag of exactly these bytes."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    """Whether the client has this representation (RFC 9110, weak comparison)."""
    if if_none_match is None:
        return False
    tags = [candidate.strip().removeprefix("W/") for candidate in if_none_match.split(",")]
    return "*" in tags or tag in tags
