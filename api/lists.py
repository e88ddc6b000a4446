"""Lists of one tenant's jobs."""

from datetime import timedelta
from http import HTTPStatus

from temporalio.client import Client

from api.outage import queried
from api.problem_documents import Problem
from api.queries import ListJobsQuery
from workflows.lister import JobLister
from workflows.messages import JobView
from workflows.paging import InvalidTokenError, read_token

# A page of 500 jobs takes a slow server a while.
_WITHIN = timedelta(seconds=20)


class InvalidPageToken(Problem):
    """The token is none of this list's."""

    status = HTTPStatus.BAD_REQUEST
    code = "INVALID_PAGE_TOKEN"

    def __init__(self) -> None:
        super().__init__(
            "`page_token` must be the `next_page_token` of an answer to the same filters."
        )


class JobLists:
    """The lists of tenants' jobs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lister = JobLister(client)

    async def page(self, asked: ListJobsQuery, tenant: str) -> tuple[tuple[JobView, ...], str]:
        """The tenant's jobs of one page, and the token of the next: empty after the last."""
        wanted = asked.of_tenant(tenant)
        scope = wanted.model_dump_json()
        try:
            after = read_token(asked.page_token, scope) if asked.page_token else None
        except InvalidTokenError as error:
            raise InvalidPageToken from error
        async with queried(self._client, _WITHIN):
            page = await self._lister.page(wanted, asked.size, after)
        return page.views, page.next.token(scope) if page.next else ""
