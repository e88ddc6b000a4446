"""create_app(): the HTTP application; nothing happens at import."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from temporalio.client import Client
from temporalio.service import RPCError

from activities.artifacts import ArtifactStore
from activities.callbacks.book import CallbackBook
from activities.callbacks.checking import SubmitCheck
from activities.version import VERSION
from api import docs, errors
from api.authentication import AuthenticationMiddleware, Gate
from api.callbacks import ReceiverDesk
from api.fleet import Fleet
from api.head import HeadMiddleware
from api.jobs import Jobs
from api.key_ring import KeyRing
from api.limits import RequestLimit
from api.links import Links
from api.lists import JobLists
from api.openapi import DescribedApp
from api.room import room_for_bulks, room_for_jobs
from api.routes import (
    batches,
    bulk,
    callbacks,
    events,
    fleet,
    health,
    images,
    jobs,
    lists,
    tasks,
    webhooks,
)
from api.settings import ApiSettings
from api.watching import Watches
from workflows.deliveries import Deliveries
from workflows.presence import Presence
from workflows.reading import JobReader
from workflows.search_attributes import register_search_attributes

_REGISTRATION_RETRY_SECONDS = 1.0

_DESCRIPTION = """\
Image-generation jobs that never go missing. Start a job, read its state at any moment, and cancel,
pause or resume it; what was accepted once survives any crash. Errors are RFC 9457 problem documents
with a `code`.
"""

logger = logging.getLogger("darkroom.api")


def create_app(client: Client, store: ArtifactStore, settings: ApiSettings) -> FastAPI:
    """The application, over a client that may still be out of reach of its server."""
    app = DescribedApp(
        title="Darkroom",
        version=VERSION,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        servers=[{"url": settings.public_url}] if settings.public_url else None,
        generate_unique_id_function=lambda route: route.name,
        # A redirect to the path without its last slash would name the host that the client did.
        redirect_slashes=False,
    )
    # Set when the process is told to stop.
    app.state.stopping = asyncio.Event()
    app.state.client = client
    app.state.store = store
    app.state.public_url = settings.public_url
    app.state.max_body_bytes = settings.max_body_bytes
    # One for all, so that whatever they look at together is looked at once.
    presence = Presence(client)
    reader = JobReader(client, store, in_part=True, presence=presence)
    waiting = room_for_jobs(client, settings.tenant_max_waiting)
    app.state.callback_book = CallbackBook(store)
    app.state.receivers = ReceiverDesk(
        SubmitCheck(settings.callback_rules), app.state.callback_book
    )
    app.state.deliveries = Deliveries(client)
    engines, shares = tuple(settings.engine_classes), settings.shares
    app.state.jobs = Jobs(client, store, reader, engines, waiting, shares, app.state.receivers)
    app.state.bulk_room = room_for_bulks(client, settings.tenant_max_bulks)
    app.state.watches = Watches(reader, app.state.stopping)
    app.state.lists = JobLists(client)
    app.state.fleet = Fleet(client, store, engines, presence)
    app.state.keys = KeyRing(store, may_be_open=settings.may_be_open)
    app.state.links = Links(store, settings.link_seconds)
    limit = RequestLimit(settings.tenant_requests_per_second)
    app.add_middleware(AuthenticationMiddleware, gate=Gate(app.state.keys, app.state.links, limit))
    # Outside, so that HEAD is GET for whoever is inside.
    app.add_middleware(HeadMiddleware)
    errors.install(app)
    app.webhooks.include_router(webhooks.router)
    docs.install(app)
    app.include_router(jobs.router)
    app.include_router(lists.router)
    app.include_router(fleet.router)
    app.include_router(images.router)
    app.include_router(batches.router)
    app.include_router(bulk.router)
    app.include_router(tasks.router)
    app.include_router(events.router)
    app.include_router(callbacks.router)
    app.include_router(health.router)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    registration = asyncio.create_task(_register(app.state.client))
    yield
    registration.cancel()
    await asyncio.gather(registration, return_exceptions=True)


async def _register(client: Client) -> None:
    """Register the search attributes as soon as Temporal answers: no job can start without."""
    while True:
        try:
            await register_search_attributes(client)
        except (RPCError, RuntimeError) as error:
            logger.warning("Temporal can't be used yet, trying again: %s", error)
            await asyncio.sleep(_REGISTRATION_RETRY_SECONDS)
        else:
            return
