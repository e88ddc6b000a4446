"""Requests that a page of another site makes a browser send: without a body, or as a form."""

from typing import Annotated

from fastapi import Header

from api.problems import CrossSiteRequest

# Browsers send it, and no page can: a form on somebody else's page must start nothing here.
FetchSite = Annotated[str | None, Header(alias="Sec-Fetch-Site", include_in_schema=False)]


def refuse_other_sites(site: str | None) -> None:
    """Raise `CrossSiteRequest` for a request that another site's page has caused."""
    if site == "cross-site":
        raise CrossSiteRequest
