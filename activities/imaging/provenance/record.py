"""What a picture says about its own origin. Nothing here depends on a machine or on the time."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from activities.models import MAX_PROMPT_LENGTH, SEED_LIMIT
from activities.values import Model

# From IPTC's vocabulary http://cv.iptc.org/newscodes/digitalsourcetype/.
TRAINED_ALGORITHMIC_MEDIA = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
SOFTWARE = "Darkroom"


def _plain(text: str) -> str:
    """One line: what a label shows must not be able to hide or to break anything."""
    if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\ufffe\uffff" for c in text):
        raise ValueError("must not contain control characters")
    return _storable(text)


def _storable(text: str) -> str:
    """NUL ends a text in half of the places where it is written; a lone surrogate has no bytes."""
    if any(c == "\0" or 0xD800 <= ord(c) < 0xE000 for c in text):
        raise ValueError("must not contain NUL or lone surrogates")
    return text


PlainText = Annotated[str, AfterValidator(_plain)]
StorableText = Annotated[str, AfterValidator(_storable)]


class ImplicitLabel(Model):
    """The implicit label of GB 45438-2025, annex E, with its names of the fields as aliases.

    `label`: "1" generated, "2" possibly, "3" suspected. The standard gives names and meanings;
    the lengths are ours, wide enough for a company's name and for any usual identifier.
    """

    model_config = ConfigDict(populate_by_name=True)

    label: Literal["1", "2", "3"] = Field(default="1", alias="Label")
    content_producer: PlainText = Field(default="", alias="ContentProducer", max_length=200)
    produce_id: PlainText = Field(default="", alias="ProduceID", max_length=200)
    reserved_code1: PlainText = Field(default="", alias="ReservedCode1", max_length=1000)
    content_propagator: PlainText = Field(default="", alias="ContentPropagator", max_length=200)
    propagate_id: PlainText = Field(default="", alias="PropagateID", max_length=200)
    reserved_code2: PlainText = Field(default="", alias="ReservedCode2", max_length=1000)

    @model_validator(mode="after")
    def _names_its_producer(self) -> Self:
        if self.label == "1" and not (self.content_producer and self.produce_id):
            raise ValueError("a generated picture's label names its producer and its number")
        return self

    def to_json(self) -> str:
        """One line, in the standard's order."""
        return compact_json(self.model_dump(by_alias=True))


class RecordedParameters(Model):
    """What the picture was made from, in the words of a request; sizes in pixels."""

    prompt: StorableText = Field(max_length=MAX_PROMPT_LENGTH)
    negative_prompt: StorableText = Field(default="", max_length=MAX_PROMPT_LENGTH)
    num_inference_steps: int = Field(ge=0, le=1_000_000)
    guidance_scale: float = Field(ge=0, le=1000, allow_inf_nan=False)
    seed: int = Field(ge=0, lt=SEED_LIMIT)
    width: int = Field(gt=0, le=65_536)
    height: int = Field(gt=0, le=65_536)
    engine: PlainText = Field(min_length=1, max_length=100)

    def to_json(self) -> str:
        """One line, always the same for the same parameters."""
        return compact_json(self.model_dump())

    def to_text(self) -> str:
        """The "parameters" text as AUTOMATIC1111's web UI began it and many tools read it."""
        lines = [self.prompt]
        if self.negative_prompt:
            lines.append(f"Negative prompt: {self.negative_prompt}")
        guidance = repr(self.guidance_scale).removesuffix(".0")
        # That format quotes what would otherwise look like the next entry.
        engine = self.engine if not set(self.engine) & set(",:") else json.dumps(self.engine)
        lines.append(
            f"Steps: {self.num_inference_steps}, CFG scale: {guidance}, Seed: {self.seed}, "
            f"Size: {self.width}x{self.height}, Model: {engine}"
        )
        return "\n".join(lines)


class Provenance(Model):
    """All that is recorded in a file.

    When it is written, None leaves what the file says of that already, except for `parameters`:
    without them the file keeps none, whoever wrote them, since a prompt may be private.
    """

    digital_source_type: Annotated[PlainText, Field(min_length=1, max_length=200)] | None = (
        TRAINED_ALGORITHMIC_MEDIA
    )
    implicit_label: ImplicitLabel | None = None
    parameters: RecordedParameters | None = None
    software: Annotated[PlainText, Field(min_length=1, max_length=200)] | None = SOFTWARE


class ProvenanceSummary(Model):
    """What a file carries. `parameters`: its own or another tool's record of the prompt."""

    digital_source_type: str | None
    aigc: ImplicitLabel | None
    parameters: bool
    content_credentials: Literal["absent", "present"]


def compact_json(value: dict[str, Any]) -> str:
    """JSON in readable Unicode, without any character that XML can't hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
