"""What is done to an engine's image before it is stored: its label, and its provenance.

Pure, and the same for every attempt: equal images are finished to equal bytes.
"""

import contextlib
import hashlib
from dataclasses import dataclass, field

from pydantic import ValidationError

from activities.errors import ErrorKind, InvalidParametersError, WorkError
from activities.imaging.errors import UnfitImageError
from activities.imaging.inspection import ImageFacts, inspect_image
from activities.imaging.labels.drawing import label_still
from activities.imaging.labels.jpeg_drawing import draw_on_jpeg
from activities.imaging.labels.mark import Mark
from activities.imaging.labels.profile import LabelProfile
from activities.imaging.provenance.embedding import (
    carry_provenance,
    describe_provenance,
    read_provenance,
    write_provenance,
)
from activities.imaging.provenance.errors import DamagedMetadataError
from activities.imaging.provenance.previews import without_previews
from activities.imaging.provenance.record import (
    ImplicitLabel,
    Provenance,
    RecordedParameters,
)
from activities.imaging.stills import Still, encode_png, open_still
from activities.models import CarriedProvenance, GenerationParameters
from activities.signing import NoSigner, Signer

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Covered:
    """What a label covers: its box, and what was there, as a file to be kept."""

    profile: LabelProfile
    box: Box
    file: bytes
    facts: ImageFacts


@dataclass(frozen=True)
class FinishedImage:
    """An image file as it is handed out, and what has to be kept beside it."""

    data: bytes
    facts: ImageFacts
    provenance: CarriedProvenance
    covered: Covered | None = None


@dataclass(frozen=True)
class Finisher:
    """How this service finishes images: its label, if it draws one, and what files say of them."""

    label: LabelProfile | None
    provider: str
    with_parameters: bool
    signer: Signer = field(default_factory=NoSigner)

    def check(self, parameters: GenerationParameters, engine: str) -> None:
        """Raise `InvalidParametersError` where an image made from them could not be finished.

        A job that was started by hand has passed nobody else who looks.
        """
        if self.with_parameters:
            size = (parameters.width, parameters.height)
            _recorded(parameters, ImageFacts("image/png", *size), engine)

    def finish(
        self, data: bytes, facts: ImageFacts, parameters: GenerationParameters, engine: str
    ) -> FinishedImage:
        """Label an engine's image, and write its provenance into it.

        Raises `WorkError` where that can't be: nothing is handed out without either.
        """
        try:
            provenance = self._provenance(data, parameters, facts, engine)
            # Before the label is drawn: what is kept for its removal tells no more than the rest.
            told = write_provenance(data, provenance, self._private(parameters))
            labelled, covered = self._labelled(told, facts)
            written = write_provenance(labelled, provenance)
            written = self.signer.sign(written, facts.media_type)
            carried = read_back(written, provenance)
            return FinishedImage(written, inspect_image(written), carried, covered)
        except UnfitImageError as error:
            message = f"the engine's image can't be labelled: {error}"
            raise WorkError(ErrorKind.ENGINE_CRASHED, message) from error
        except DamagedMetadataError as error:
            message = f"the engine's image has metadata that can't be kept: {error}"
            raise WorkError(ErrorKind.ENGINE_CRASHED, message) from error

    def _labelled(self, data: bytes, facts: ImageFacts) -> tuple[bytes, Covered | None]:
        if self.label is None:
            return data, None
        still = open_still(data, facts.media_type)
        mark = self.label.mark_on(facts.width, facts.height)
        file, kept = _kept(data, facts, still, mark.box)
        # A preview of the image has no label, and viewers show it in the image's place.
        drawn = _drawn(without_previews(data), still, mark)
        return drawn, Covered(self.label, mark.box, file, kept)

    def _private(self, parameters: GenerationParameters) -> tuple[str, ...]:
        """What no engine may tell in the file, wherever it writes it."""
        if self.with_parameters:
            return ()
        return parameters.prompt, parameters.negative_prompt

    def _provenance(
        self, data: bytes, parameters: GenerationParameters, facts: ImageFacts, engine: str
    ) -> Provenance:
        return Provenance(
            # The number of a picture, by its content: another attempt at the same one has it too.
            implicit_label=ImplicitLabel(
                content_producer=self.provider,
                produce_id=hashlib.sha256(data).hexdigest()[:32],
            ),
            parameters=_recorded(parameters, facts, engine) if self.with_parameters else None,
        )


def read_back(data: bytes, written: Provenance) -> CarriedProvenance:
    """What a file says of its origin; raises `WorkError` where it isn't what was written."""
    if read_provenance(data) != written:
        raise WorkError(ErrorKind.INTERNAL, "the image does not carry the provenance written to it")
    return carried_by(data)


def carried_by(data: bytes) -> CarriedProvenance:
    """What a file says of its origin; raises `DamagedMetadataError`."""
    summary = describe_provenance(data)
    return CarriedProvenance(
        digital_source_type=summary.digital_source_type,
        aigc=summary.aigc.model_dump(by_alias=True) if summary.aigc else None,
        has_parameters=summary.parameters,
        content_credentials=summary.content_credentials,
    )


def _recorded(
    parameters: GenerationParameters, facts: ImageFacts, engine: str
) -> RecordedParameters:
    asked = parameters.model_dump(
        include=set(RecordedParameters.model_fields) - {"width", "height"}
    )
    size = {"width": facts.width, "height": facts.height}
    try:
        return RecordedParameters.model_validate(asked | size | {"engine": engine})
    # The API lets no such text in; a job that is started by hand may have any.
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        reason = fault["msg"].removeprefix("Value error, ")
        message = f"the image file can't record `{fault['loc'][0]}`: {reason}"
        raise InvalidParametersError(message) from error


def _drawn(data: bytes, still: Still, mark: Mark) -> bytes:
    """The file with the mark on it, and with all that it said before."""
    if not still.is_lossless:
        # What has no blocks that could be written alone is encoded anew, as all else is.
        with contextlib.suppress(UnfitImageError):
            return draw_on_jpeg(data, mark)
    return carry_provenance(data, label_still(still, mark).to_bytes())


def _kept(data: bytes, facts: ImageFacts, still: Still, box: Box) -> tuple[bytes, ImageFacts]:
    """The box alone, where nothing else changed; else, encoded anew, the whole file."""
    if not still.is_lossless:
        return data, facts
    left, top, right, bottom = box
    return encode_png(still.within(box)), ImageFacts("image/png", right - left, bottom - top)
