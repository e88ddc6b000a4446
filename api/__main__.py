"""`python -m api`: serves the REST API until it is told to stop."""

import asyncio
import logging
import os
import sys
from datetime import timedelta

import uvicorn

from activities.artifacts import open_store
from activities.settings import SettingsError
from api.app import create_app
from api.settings import ApiSettings
from workflows.client import connect

# Clients had better hear of an outage soon than wait for the end of it.
_RETRY_FOR = timedelta(seconds=2)
_SHUTDOWN_SECONDS = 5

logger = logging.getLogger("darkroom.api")


async def _serve(settings: ApiSettings) -> None:
    client = await connect(lazy=True, retry_for=_RETRY_FOR)
    app = create_app(client, open_store(settings.artifacts_url), settings)
    if not settings.is_loopback_only:
        logger.warning(
            "listening on %s without API keys: whoever reaches it can use it", settings.api_host
        )
    config = uvicorn.Config(
        app,
        host=settings.api_host,
        port=settings.api_port,
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    await uvicorn.Server(config).serve()


def main() -> int:
    """Serve; returns the exit code."""
    try:
        settings = ApiSettings.from_environ(os.environ)
    except SettingsError as error:
        sys.stderr.write(f"api: {error}\n")
        return 2
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    asyncio.run(_serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
