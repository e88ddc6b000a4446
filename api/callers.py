"""Who asks: a tenant with its key, or whoever was given the link to one job's image."""

from dataclasses import dataclass

from workflows.messages import DEFAULT_TENANT, JobView


@dataclass(frozen=True)
class Caller:
    """A tenant, or the holder of a link, whose signature stands for the tenant of its one job."""

    tenant: str = DEFAULT_TENANT
    linked_job: str | None = None

    @property
    def source(self) -> str:
        """How transitions name the caller."""
        return "link" if self.linked_job else source_of(self.tenant)

    def may_see(self, view: JobView) -> bool:
        """Whether the job is the caller's."""
        return self.linked_job is not None or view.tenant == self.tenant


def source_of(tenant: str) -> str:
    """How transitions and records name a tenant."""
    return f"api:{tenant}"
