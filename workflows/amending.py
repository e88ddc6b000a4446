"""Amending a job that is not over: another priority, another limit of its processing time. Pure."""

from typing import Self

from pydantic import ConfigDict, Field, ValidationError, model_validator
from temporalio.common import RawValue
from temporalio.converter import PayloadConverter

from workflows.messages import LEAST_TIMEOUT_SECONDS, MOST_TIMEOUT_SECONDS, Amendment, JobView, clip
from workflows.notes import NOTHING_SENT, ControlNote

# Every amendment stands in the job's status, which is written anew with each transition.
MAX_AMENDMENTS = 20
MAX_AMENDMENT_MESSAGE_LENGTH = 200

_NOTHING_ASKED = "`priority` or `timeout_seconds` is needed"


class AmendNote(ControlNote):
    """What is to be different, who says so, and why.

    Strict, other than a note that only says why: a name with a slip of the pen must not pass for
    half of what was meant.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    message: str = Field(default="", max_length=MAX_AMENDMENT_MESSAGE_LENGTH)
    priority: int | None = Field(default=None, ge=0, le=9)
    timeout_seconds: int | None = Field(
        default=None, ge=LEAST_TIMEOUT_SECONDS, le=MOST_TIMEOUT_SECONDS
    )

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if self.priority is None and self.timeout_seconds is None:
            raise ValueError(_NOTHING_ASKED)
        return self

    def changes(self, priority: int, timeout_seconds: int) -> dict[str, int]:
        """What it changes of a job with this priority and this limit."""
        asked = {"priority": self.priority, "timeout_seconds": self.timeout_seconds}
        known = {"priority": priority, "timeout_seconds": timeout_seconds}
        return {k: v for k, v in asked.items() if v is not None and v != known[k]}

    def has_made(self, amendment: Amendment) -> bool:
        """Whether an amendment on record can be its effect."""
        return (
            (amendment.source, amendment.message) == (self.source, self.message)
            and amendment.priority in (None, self.priority)
            and amendment.timeout_seconds in (None, self.timeout_seconds)
        )


def amend_note(sent: object, converter: PayloadConverter) -> AmendNote | str:
    """Read what a signal carried, or say why it is refused: half a change is worse than none."""
    if sent is NOTHING_SENT:
        return _refusal(_NOTHING_ASKED)
    try:
        told = converter.from_payload(sent.payload) if isinstance(sent, RawValue) else sent
        return AmendNote.model_validate(told)
    except ValidationError as error:
        return _refusal(_in_words(error))
    # Converters raise what they like, and what can't be read must not fail the workflow task.
    except Exception:  # noqa: BLE001
        return _refusal("what came with the signal could not be read")


def _refusal(reason: str) -> str:
    return clip(f"AMEND was refused: {reason}")


def _in_words(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(": ".join((*map(str, fault["loc"]), fault["msg"])) for fault in faults)


def terms_after(view: JobView, unheard: tuple[AmendNote, ...]) -> tuple[int, int]:
    """Priority and limit that the job will have once it has heard all these."""
    terms = {"priority": view.priority, "timeout_seconds": view.timeout_seconds}
    for note in unheard:
        terms |= note.changes(**terms)
    return terms["priority"], terms["timeout_seconds"]
