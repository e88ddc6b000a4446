"""What comes with a signal: who sent it, and why."""

from pydantic import Field
from temporalio.common import RawValue
from temporalio.converter import PayloadConverter

from activities.values import Model
from workflows.messages import MAX_MESSAGE_LENGTH
from workflows.names import OPERATOR

# What a bare signal carries; a `null` that was sent is something.
NOTHING_SENT = object()


class ControlNote(Model):
    """Who sent a signal, and why; both may be left out."""

    source: str = Field(default=OPERATOR, min_length=1, max_length=200)
    message: str = Field(default="", max_length=MAX_MESSAGE_LENGTH)


def control_note(sent: object, converter: PayloadConverter) -> ControlNote:
    """Read whatever a signal carried: an operator's bare signal, or a broken one, still counts."""
    if sent is NOTHING_SENT:
        return ControlNote()
    try:
        told = converter.from_payload(sent.payload) if isinstance(sent, RawValue) else sent
        return ControlNote.model_validate(told)
    # Converters raise what they like, and no signal may be lost for the note that came with it.
    except Exception:  # noqa: BLE001
        return ControlNote(message="(the note that came with the signal could not be read)")
