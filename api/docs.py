"""The API's description for people: Swagger UI, served from here, for networks without an outside.

Its addresses are relative, so that it works behind a proxy that adds a prefix.
"""

from pathlib import Path

import fastapi_offline
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

_ASSETS = Path(fastapi_offline.__file__).parent / "static"


def install(app: FastAPI) -> None:
    """Serve `/docs`, and what its page needs below it."""
    app.mount("/docs/assets", StaticFiles(directory=_ASSETS), name="docs-assets")
    app.add_api_route("/docs", _page, include_in_schema=False, response_class=HTMLResponse)


async def _page() -> HTMLResponse:
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Darkroom",
        swagger_js_url="docs/assets/swagger-ui-bundle.js",
        swagger_css_url="docs/assets/swagger-ui.css",
        swagger_favicon_url="docs/assets/favicon.png",
    )
