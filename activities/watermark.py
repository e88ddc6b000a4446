"""remove_watermark: from an image of this service to its copy without the visible label."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from temporalio import activity

from activities.artifacts import ArtifactLostError, ArtifactStore, get_image
from activities.attempt import Attempt
from activities.engine_work import EngineWork
from activities.errors import ErrorKind, WorkError
from activities.finishing import carried_by
from activities.imaging.provenance.errors import DamagedMetadataError
from activities.kept_profiles import read_profile
from activities.models import (
    CarriedProvenance,
    DrawnLabel,
    RemovalParameters,
    RemovalTask,
    WorkInput,
    WorkResult,
)
from activities.records import LabelRecord, put_record
from activities.signing import NoSigner, Signer


class WatermarkActivities:
    """Removes visible labels from images of this service, for those who own them."""

    def __init__(self, work: EngineWork, signer: Signer | None = None) -> None:
        self._work = work
        self._signer = signer or NoSigner()

    @activity.defn
    async def remove_watermark(self, input: WorkInput) -> WorkResult:
        """One attempt: the clean copy, or a stop, or an ApplicationError of its kind.

        Who asked is on record before there is a copy. A repeated attempt writes the same.
        """
        return await self._work.attempt(input, self._remove)

    async def _remove(self, attempt: Attempt) -> WorkResult:
        work, task = self._work, _task(attempt.input)
        source = await self._read_source(task)
        await work.keep(attempt, lambda store: put_record(store, _record(attempt.input, task)))
        async with work.scratch(attempt) as scratch:
            parameters = await self._files(task, source, scratch)
            made = await work.make(attempt, scratch, parameters)
        if made is None:
            return attempt.stopped()
        data, provenance = await work.in_thread(
            lambda: self._signed(source, made.data, task), "the copy could not be signed"
        )
        artifact = await work.keep_image(attempt, data, await work.inspect(data))
        return attempt.result(
            artifact=artifact, checkpoint=None, removed=made.removed, provenance=provenance
        )

    def _signed(
        self, source: bytes, clean: bytes, task: RemovalTask
    ) -> tuple[bytes, CarriedProvenance]:
        signed = self._signer.sign_edit(clean, task.source.media_type, source)
        return signed, _carried_on(source, signed)

    async def _read_source(self, task: RemovalTask) -> bytes:
        try:
            return await self._work.read(lambda store: get_image(store, task.source))
        except ArtifactLostError as error:
            message = "the image whose label is to be removed was lost"
            raise WorkError(ErrorKind.INVALID_PARAMETERS, message) from error

    async def _files(self, task: RemovalTask, source: bytes, scratch: Path) -> RemovalParameters:
        """Lay out what the remover reads, in the attempt's own folder."""
        await self._work.write_scratch(scratch / "source", source)
        known = RemovalParameters(source=str(scratch / "source"), media_type=task.source.media_type)
        return known if task.label is None else await self._own_label(known, task.label, scratch)

    async def _own_label(
        self, known: RemovalParameters, label: DrawnLabel, scratch: Path
    ) -> RemovalParameters:
        """What the label covers, too; or, where that was lost, the label as it was drawn."""
        pristine = await self._laid_out(
            scratch / "pristine", lambda store: get_image(store, label.pristine)
        )
        if pristine is not None:
            return known.model_copy(update={"pristine": pristine, "box": label.box})
        activity.logger.warning("the pixels below the label were lost; they are computed")
        sha256 = label.profile
        # An older build has not kept it.
        if sha256 is None:
            return known
        profile = await self._laid_out(
            scratch / "profile", lambda store: read_profile(store, sha256)
        )
        return known.model_copy(update={"profile": profile})

    async def _laid_out(
        self, path: Path, get: Callable[[ArtifactStore], Awaitable[bytes]]
    ) -> str | None:
        """A file from the store as one of the attempt's own; None where it was lost."""
        try:
            await self._work.write_scratch(path, await self._work.read(get))
        except ArtifactLostError:
            return None
        return str(path)


def _task(input: WorkInput) -> RemovalTask:
    if input.removal is None or not input.removal.is_of(input.predecessor_id or ""):
        raise WorkError(ErrorKind.INVALID_PARAMETERS, "there is no image to remove a label from")
    return input.removal


def _record(input: WorkInput, task: RemovalTask) -> LabelRecord:
    return LabelRecord(
        job_id=input.predecessor_id or "",
        removal_job_id=input.job_id,
        tenant=input.tenant,
        asked_by=task.asked_by,
        asked_at=task.asked_at,
        terms_accepted=True,
        image_sha256=task.source.sha256,
    )


def _carried_on(source: bytes, clean: bytes) -> CarriedProvenance:
    """What the copy says of its origin, which is all that its source says."""
    try:
        before, after = carried_by(source), carried_by(clean)
    except DamagedMetadataError as error:
        raise WorkError(ErrorKind.INVALID_PARAMETERS, str(error)) from error
    if before.model_copy(update={"content_credentials": after.content_credentials}) != after:
        raise WorkError(ErrorKind.INTERNAL, "the image lost its provenance with its label")
    return after
