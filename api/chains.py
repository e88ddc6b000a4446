"""Chains: the job that removes the label of another one's image, and who is given the copy."""

import asyncio
import contextlib
from datetime import UTC, datetime

from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.artifacts import ArtifactStore
from activities.errors import WorkError
from activities.records import DeliveryRecord, put_delivery
from activities.refs import ArtifactRef
from api.callers import source_of
from api.jobs import Created, Jobs
from api.outage import answered
from api.problems import ArtifactLost, NotRemovable, NotRetryable, StoreUnavailable
from api.schemas import RemoveLabelRequest
from api.tasks import Task
from workflows.chain import (
    in_chain,
    is_removal,
    may_have_successor,
    predecessor_of,
    removal_id,
    removal_input,
)
from workflows.messages import ImageJobInput, JobView
from workflows.state_machine import JobState

_RECORD_SECONDS = 10.0


class Chains:
    """The chains of one tenant's jobs."""

    def __init__(self, jobs: Jobs, store: ArtifactStore) -> None:
        self._jobs = jobs
        self._store = store

    async def read(self, job_id: str) -> JobView:
        """The job as a part of its chain.

        The two jobs are looked at together where the first one is known to have succeeded.
        """
        if not self._jobs.may_have_successor(job_id):
            return await self.placed(await self._jobs.read(job_id))
        view, successor = await asyncio.gather(
            self._jobs.read(job_id), self._jobs.read_if_any(removal_id(job_id))
        )
        return in_chain(view, successor if may_have_successor(view) else None)

    async def placed(self, view: JobView) -> JobView:
        """The job as a part of its chain, whose state is read from both jobs."""
        return in_chain(view, await self._successor(view))

    async def _successor(self, view: JobView) -> JobView | None:
        """The job that removes the label of this one's image, if there is one."""
        if not may_have_successor(view):
            return None
        return await self._jobs.read_if_any(removal_id(view.id))

    async def task(self, view: JobView) -> Task:
        """The job with its removal, if it has one."""
        successor = await self._successor(view)
        return Task(in_chain(view, successor), successor)

    async def last_finished(self, view: JobView) -> JobView:
        """The chain's last job that has an image; the given one if none has."""
        if is_removal(view) and view.state is not JobState.SUCCESS:
            return await self._jobs.read(predecessor_of(view))
        successor = await self._successor(view)
        return successor if successor and successor.state is JobState.SUCCESS else view

    async def remove_label(self, job_id: str, asked: RemoveLabelRequest) -> JobView:
        """Start the successor of a job, or give the one that there is; one that failed again."""
        if asked.priority is not None:
            self._jobs.share.require(asked.priority)
        view = await self._jobs.read(job_id)
        _refuse_without_label(view)
        known = await self._successor(view)
        if known is None or not await self._has_copy_or_will(known):
            # Nothing is started for an image that is lost.
            await self._jobs.image(view)
            await self._start_removal(view, asked, _reuse_policy(known))
        return await self._jobs.read(removal_id(view.id))

    async def _has_copy_or_will(self, removal: JobView) -> bool:
        """Whether there is no reason to run it again: it goes on, or its copy is there."""
        if removal.state is not JobState.SUCCESS:
            return not removal.state.is_terminal
        try:
            await self._jobs.image(removal)
        except ArtifactLost:
            return False
        return True

    async def retry(self, job_id: str, key: str | None) -> Created:
        """Start a job that asks the same as one that has no image; a removal is run again.

        Its priority is no higher than the tenant may ask for by now: whoever asks for another try
        names none that could be refused.
        """
        view = await self._jobs.read(job_id)
        await self._require_no_image(view)
        if view.request is None:
            raise NotRetryable("What the job was asked can't be read any more.", view.state)
        if is_removal(view):
            asked = RemoveLabelRequest(label_terms_accepted=True)
            return Created(await self.remove_label(predecessor_of(view), asked))
        changes = {"retry_of": view.id, "start_at": None, "fingerprint": None}
        again = view.request.model_copy(update=changes)
        intent = self._jobs.intent(key, again, "retry") if key is not None else None
        return await self._jobs.submit(self._with_share(again, again.priority), intent)

    def _with_share(self, request: ImageJobInput, priority: int) -> ImageJobInput:
        """The request with a priority that the tenant may have by now, and its weight by now."""
        share = self._jobs.share
        changes = {"priority": share.cap(priority), "fairness_weight": share.weight}
        return request.model_copy(update=changes)

    async def _require_no_image(self, view: JobView) -> None:
        if not view.state.is_terminal:
            raise NotRetryable(f"The job is {view.state}: it goes on by itself.", view.state)
        if view.state is JobState.SUCCESS:
            with contextlib.suppress(ArtifactLost):
                await self._jobs.image(view)
                raise NotRetryable("The job has its image.", view.state)

    async def _start_removal(
        self, view: JobView, asked: RemoveLabelRequest, policy: WorkflowIDReusePolicy
    ) -> None:
        request = removal_input(view, self._jobs.caller.source, datetime.now(UTC))
        priority = request.priority if asked.priority is None else asked.priority
        request = self._with_share(request, priority)
        # Whoever is quicker starts it, and the other one is given it.
        with contextlib.suppress(WorkflowAlreadyStartedError):
            async with answered():
                await self._jobs.start(removal_id(view.id), request, policy)

    async def record_delivery(self, view: JobView, artifact: ArtifactRef, address: str) -> None:
        """Put on record who is given an unlabelled copy, at which network address.

        To be awaited before it is given; raises `StoreUnavailable` where it can't be recorded.
        """
        if not is_removal(view):
            return
        delivery = DeliveryRecord(
            job_id=predecessor_of(view) or view.id,
            removal_job_id=view.id,
            delivered_to=source_of(view.tenant),
            by_link=self._jobs.caller.linked_job is not None,
            address=address,
            delivered_at=datetime.now(UTC),
            sha256=artifact.sha256,
        )
        try:
            async with asyncio.timeout(_RECORD_SECONDS):
                await put_delivery(self._store, delivery)
        except (TimeoutError, WorkError) as error:
            message = "The artifact store takes no record of who is given this copy."
            raise StoreUnavailable(message) from error


def _refuse_without_label(view: JobView) -> None:
    """Only an image that was generated here has a label to be removed."""
    if is_removal(view):
        raise NotRemovable("The job is itself the removal of a label.", view.state)
    if view.state is not JobState.SUCCESS:
        raise NotRemovable(f"The job is {view.state}: it has no image.", view.state)


def _reuse_policy(known: JobView | None) -> WorkflowIDReusePolicy:
    """A removal that failed is run again once, whoever else asks at the same moment.

    To Temporal one that was cancelled is a completed one, as is one whose copy was lost.
    """
    if known is None:
        return WorkflowIDReusePolicy.REJECT_DUPLICATE
    if known.state in (JobState.CANCELLED, JobState.SUCCESS):
        return WorkflowIDReusePolicy.ALLOW_DUPLICATE
    return WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
