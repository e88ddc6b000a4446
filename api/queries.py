"""Lists, as clients see them: the query parameters, and a page."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from activities.models import MAX_WORKER_LENGTH
from api.fields import Text, Timestamp
from api.job_schemas import JobResponse
from workflows.listing import JobFilter, is_quotable
from workflows.messages import JobType
from workflows.state_machine import JobState

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 500
_MAX_VALUES = 20
_LONGEST_RUNNING_SECONDS = 400 * 86_400


def _plain(text: str) -> str:
    if not is_quotable(text):
        raise ValueError("must not contain quotes, backslashes or control characters")
    return text


def _whole(value: Any) -> Any:
    """Digits only: pydantic would take `1_0` and ` 1`, and of JSON `true` and `1.0`, too."""
    is_digits = isinstance(value, str) and value.removeprefix("-").isdecimal()
    if not is_digits and type(value) is not int:
        raise ValueError("must be a whole number")
    return value


_Engine = Annotated[Text, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
_Worker = Annotated[Text, Field(min_length=1, max_length=MAX_WORKER_LENGTH), AfterValidator(_plain)]
_Label = Annotated[Text, Field(min_length=1, max_length=63 + 1 + 255)]
_Priority = Annotated[int, Field(ge=0, le=9), BeforeValidator(_whole)]
_PageSize = Annotated[int, Field(ge=0), BeforeValidator(_whole)]


class JobFilterQuery(BaseModel):
    """Filters of jobs. One that is repeated takes any of its values; all of them must fit."""

    # A misspelt filter that was ignored would list all jobs.
    model_config = ConfigDict(extra="forbid", frozen=True)

    state: list[JobState] = Field(
        default_factory=list, max_length=_MAX_VALUES, description="Where the job is"
    )
    type: list[JobType] = Field(
        default_factory=list, max_length=_MAX_VALUES, description="What kind of work it is"
    )
    engine: list[_Engine] = Field(
        default_factory=list, max_length=_MAX_VALUES, description="Its engine"
    )
    worker: list[_Worker] = Field(
        default_factory=list,
        max_length=_MAX_VALUES,
        description="The worker of its running or last attempt",
    )
    priority: list[_Priority] = Field(
        default_factory=list, max_length=_MAX_VALUES, description="Its priority, 0 to 9"
    )
    label: list[_Label] = Field(
        default_factory=list,
        max_length=_MAX_VALUES,
        description="One of its labels: `name`, or `name:value`. Jobs that were started before "
        "labels could be asked for are not found by them.",
    )
    created_after: Timestamp | None = Field(
        default=None, description="Accepted then or later; RFC 3339 with a zone"
    )
    created_before: Timestamp | None = Field(
        default=None, description="Accepted before then; RFC 3339 with a zone"
    )
    updated_before: Timestamp | None = Field(
        default=None, description="In its state since before then; RFC 3339 with a zone"
    )
    running_longer_than_seconds: float | None = Field(
        default=None,
        ge=0,
        le=_LONGEST_RUNNING_SECONDS,
        allow_inf_nan=False,
        description="In PROCESSING, and for longer than this",
    )

    def of_tenant(self, tenant: str) -> JobFilter:
        """The filter for a tenant's jobs; the order in which values were given is no part of it."""
        return JobFilter(
            tenant=tenant,
            states=tuple(sorted(set(self.state))),
            types=tuple(sorted(set(self.type))),
            engines=tuple(sorted(set(self.engine))),
            workers=tuple(sorted(set(self.worker))),
            priorities=tuple(sorted(set(self.priority))),
            labels=tuple(sorted(set(self.label))),
            created_after=self.created_after,
            created_before=self.created_before,
            updated_before=self.updated_before,
            running_longer_than_seconds=self.running_longer_than_seconds,
        )


class ListJobsQuery(JobFilterQuery):
    """Filters of jobs, and which page of the list."""

    page_size: _PageSize = Field(
        default=0,
        description=f"Jobs at most: {DEFAULT_PAGE_SIZE} if 0 or left out, {MAX_PAGE_SIZE} if more. "
        "A page can have fewer, even none, though others follow.",
    )
    page_token: str = Field(
        default="",
        description="`next_page_token` of the page before, with the same filters; the first page "
        "if left out or empty",
    )

    @property
    def size(self) -> int:
        """How many jobs the page has at most."""
        return min(self.page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


class JobListResponse(BaseModel):
    """A page of a list of jobs."""

    jobs: list[JobResponse] = Field(description="Newest first")
    next_page_token: str = Field(description="For the next page; empty after the last one")
