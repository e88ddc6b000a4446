"""What clients send and get where a job is amended."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from api.fields import Text, UtcTime, Whole
from workflows.amending import MAX_AMENDMENT_MESSAGE_LENGTH, MAX_AMENDMENTS
from workflows.messages import LEAST_TIMEOUT_SECONDS, MOST_TIMEOUT_SECONDS


class AmendJobRequest(BaseModel):
    """What is to be different of a job: its priority, its limit, or both."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {"priority": 8},
                {"timeout_seconds": 7200, "message": "the picture is larger than most"},
            ],
            "anyOf": [{"required": ["priority"]}, {"required": ["timeout_seconds"]}],
        },
    )

    priority: Whole | None = Field(
        default=None,
        ge=0,
        le=9,
        description="9 is served first, 0 last; only while the job waits. It goes to the end of "
        "those that wait in that priority",
    )
    timeout_seconds: Whole | None = Field(
        default=None,
        ge=LEAST_TIMEOUT_SECONDS,
        le=MOST_TIMEOUT_SECONDS,
        description="Limit of the time in PROCESSING, over all attempts; at once, whether it is "
        "raised or lowered",
    )
    message: Text = Field(
        default="",
        max_length=MAX_AMENDMENT_MESSAGE_LENGTH,
        description="Kept with the amendment, for whoever asks why",
    )

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if self.priority is None and self.timeout_seconds is None:
            raise ValueError("`priority` or `timeout_seconds` is needed")
        return self


class AmendmentResponse(BaseModel):
    """What was changed of a job after it was asked for."""

    at: UtcTime = Field(description="When it took effect")
    source: str = Field(description="Who: `api:<tenant>` or `operator`")
    message: str = Field(description="Why, if that was said")
    priority: int | None = Field(description="The new priority; null if it was left as it was")
    timeout_seconds: int | None = Field(description="The new limit; null if it was left as it was")


AMENDMENTS_DESCRIPTION = (
    f"What was changed since the job was asked for, up to {MAX_AMENDMENTS} times; `request` keeps "
    "what was asked"
)
