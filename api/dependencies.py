"""What routes take from the application, and the conditional-request headers."""

import asyncio
import hashlib
from typing import Annotated

from fastapi import Depends, Header, Request

from api.chains import Chains
from api.control import JobControl
from api.jobs import Jobs
from api.listening import Listening


def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


def _control(request: Request) -> JobControl:
    return JobControl(request.app.state.jobs)


def _chains(request: Request) -> Chains:
    return Chains(request.app.state.jobs, request.app.state.store)


def _listening(request: Request) -> Listening:
    return Listening(request.app.state.jobs, request.app.state.watches)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _base_url(request: Request) -> str:
    """Where clients reach this API: as configured, or as this client did."""
    configured: str = request.app.state.public_url
    return configured or str(request.base_url).rstrip("/")


def _stopping(request: Request) -> asyncio.Event:
    stopping: asyncio.Event = request.app.state.stopping
    return stopping


JobsDependency = Annotated[Jobs, Depends(_jobs)]
ControlDependency = Annotated[JobControl, Depends(_control)]
ChainsDependency = Annotated[Chains, Depends(_chains)]
ListeningDependency = Annotated[Listening, Depends(_listening)]
ClientAddress = Annotated[str, Depends(_address)]
BaseUrl = Annotated[str, Depends(_base_url)]
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
