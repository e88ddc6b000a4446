"""generate_image: from parameters to a labelled image in the store."""

from temporalio import activity

from activities.artifacts import ArtifactStore, put_pristine
from activities.attempt import Attempt
from activities.engine_work import EngineWork
from activities.finishing import Covered, Finisher
from activities.kept_profiles import keep_profile
from activities.models import DrawnLabel, WorkInput, WorkResult


class GenerationActivities:
    """Generates with one engine, and finishes what it made."""

    def __init__(self, work: EngineWork, finisher: Finisher) -> None:
        self._work = work
        self._finisher = finisher

    @activity.defn
    async def generate_image(self, input: WorkInput) -> WorkResult:
        """One attempt: an image, or a stop at a checkpoint, or an ApplicationError of its kind.

        A repeated attempt stores the same bytes under the same key.
        """
        return await self._work.attempt(input, self._generate)

    async def _generate(self, attempt: Attempt) -> WorkResult:
        work, parameters = self._work, attempt.input.parameters
        self._finisher.check(parameters, work.engine_name)
        checkpoint = await work.read_checkpoint(attempt)
        async with work.scratch(attempt) as scratch:
            made = await work.make(attempt, scratch, parameters, checkpoint)
        if made is None:
            return attempt.stopped()
        facts = await work.inspect(made.data)
        finished = await work.in_thread(
            lambda: self._finisher.finish(made.data, facts, parameters, work.engine_name),
            "the engine's image could not be labelled",
        )
        label = await self._keep_covered(attempt, finished.covered) if finished.covered else None
        artifact = await work.keep_image(attempt, finished.data, finished.facts)
        return attempt.result(
            artifact=artifact, checkpoint=None, label=label, provenance=finished.provenance
        )

    async def _keep_covered(self, attempt: Attempt, covered: Covered) -> DrawnLabel:
        facts, job_id = covered.facts, attempt.input.job_id
        size = (facts.width, facts.height)

        async def put(store: ArtifactStore) -> DrawnLabel:
            pristine = await put_pristine(store, job_id, covered.file, facts.media_type, size)
            profile = await keep_profile(store, covered.profile)
            return DrawnLabel(box=covered.box, pristine=pristine, profile=profile)

        return await self._work.keep(attempt, put)
