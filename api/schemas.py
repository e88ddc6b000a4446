"""What clients send about one job, and what they get of the service's health."""

from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from activities.callbacks.models import MAX_URL_LENGTH, CallbackEvents
from activities.models import MAX_PROMPT_LENGTH, MAX_SIDE, MIN_SIDE, SEED_LIMIT
from api.fields import (
    Label,
    LabelValue,
    Options,
    Prompt,
    Text,
    Timestamp,
    Whole,
)


class CreateJobRequest(BaseModel):
    """A picture to be made. Everything but the prompt has a default."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {"prompt": "a lighthouse at dusk, 海浪 🌊"},
                {
                    "prompt": "a quiet harbour in the morning",
                    "width": 768,
                    "height": 512,
                    "num_inference_steps": 20,
                    "seed": 42,
                },
            ]
        },
    )

    prompt: Prompt = Field(
        min_length=1, max_length=MAX_PROMPT_LENGTH, description="What the picture shows"
    )
    negative_prompt: Text = Field(
        default="", max_length=MAX_PROMPT_LENGTH, description="What it must not show"
    )
    width: Whole = Field(default=1024, ge=MIN_SIDE, le=MAX_SIDE, description="In pixels")
    height: Whole = Field(default=1024, ge=MIN_SIDE, le=MAX_SIDE, description="In pixels")
    num_inference_steps: Whole = Field(
        default=30, ge=1, le=150, description="Refinements: more takes longer and is cleaner"
    )
    guidance_scale: float = Field(
        default=7.5,
        ge=0,
        le=50,
        allow_inf_nan=False,
        description="How strongly the prompt steers the picture",
    )
    seed: Whole | None = Field(
        default=None,
        ge=0,
        lt=SEED_LIMIT,
        description="Same seed and parameters, same bytes; chosen, and given back, if left out",
    )
    engine: Text | None = Field(
        default=None,
        max_length=40,
        description="One of the configured engines; the first of them if left out",
        examples=["procedural"],
    )
    engine_options: Options = Field(
        default_factory=dict, description="Options of the engine's own", max_length=64
    )
    watermark: Literal["keep", "remove"] = Field(
        default="keep",
        description="Whether a second job follows that removes the image's visible label; "
        "see `successor_id` and `chain`",
    )
    label_terms_accepted: bool = Field(
        default=False,
        description="Acceptance of the terms of an unlabelled copy; must be true for "
        "`watermark: remove`. Who asked, and who was given the copy, is kept on record.",
        validate_default=True,
    )
    priority: Whole = Field(
        default=5,
        ge=0,
        le=9,
        description="9 is served first, 0 last. Tenants can have a highest priority of their own: "
        "one above it is refused, and a job that names none has the default or that",
    )
    timeout_seconds: Whole = Field(
        default=1800, ge=10, le=86_400, description="Limit of the time in PROCESSING, all attempts"
    )
    queue_timeout_seconds: Whole = Field(
        default=86_400,
        ge=10,
        le=30 * 86_400,
        description="Limit of the time in PENDING since the job could start",
    )
    max_attempts: Whole = Field(default=3, ge=1, le=10, description="Attempts in all")
    start_at: Timestamp | None = Field(
        default=None, description="Not before this time; RFC 3339 with a zone"
    )
    labels: dict[Label, LabelValue] = Field(
        default_factory=dict, max_length=16, description="Your own words, kept with the job"
    )
    callback_url: Text | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_URL_LENGTH,
        description="Where to tell of the job's end: a public http or https address",
        examples=["https://example.com/darkroom"],
    )
    callback_events: CallbackEvents = Field(
        default="final", description="What to tell: final states only, or every transition"
    )

    @field_validator("label_terms_accepted")
    @classmethod
    def _needed_for_a_copy(cls, accepted: bool, info: ValidationInfo) -> bool:
        if info.data.get("watermark") == "remove" and not accepted:
            raise ValueError("must be true for an unlabelled copy")
        return accepted


class RemoveLabelRequest(BaseModel):
    """The wish for a copy of a job's image without its visible label."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"label_terms_accepted": True}]},
    )

    label_terms_accepted: Literal[True] = Field(
        description="Acceptance of the terms of an unlabelled copy, which is kept on record"
    )
    priority: Whole | None = Field(
        default=None,
        ge=0,
        le=9,
        description="The first job's if left out, or the highest that the tenant may ask for",
    )

    @field_validator("label_terms_accepted", mode="before")
    @classmethod
    def _is_said_outright(cls, accepted: object) -> object:
        """A 1 equals true, but nobody accepts terms by it."""
        if accepted is not True:
            raise ValueError("must be true for an unlabelled copy")
        return accepted


class ControlRequest(BaseModel):
    """Why a job is cancelled, paused or resumed; the whole body may be left out."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [{"message": "the customer changed their mind"}]},
    )

    message: Text = Field(
        default="", max_length=1000, description="Kept with the transition, for whoever asks why"
    )


class HealthResponse(BaseModel):
    """The state of this API process."""

    status: Literal["ok"] = Field(description="Always `ok`: the process answers")


class ReadinessResponse(BaseModel):
    """The state of what this API process stands on."""

    ready: bool = Field(description="Whether jobs can be started and images read")
    temporal: bool = Field(description="Whether Temporal answers")
    store: bool = Field(description="Whether the artifact store can be written to")
