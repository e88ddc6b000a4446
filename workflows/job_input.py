"""Reading the input of a job, whatever it is: nothing that was sent may wedge the workflow."""

from collections.abc import Sequence

from pydantic import ValidationError
from temporalio.common import RawValue
from temporalio.converter import PayloadConverter

from workflows.messages import ImageJobInput

# As it comes: more is not even looked at.
MAX_INPUT_BYTES = 1024 * 1024

# As it goes on, to the memo and to each attempt's input, several of which share one message. What
# was read may be written at many times its length: 1e15 has 18 digits.
MAX_REQUEST_BYTES = 256 * 1024

_NOT_READABLE = "the input is not JSON that a job can read"


class UnreadableInputError(Exception):
    """No worker can ever read this input; the message says what is wrong and what is allowed."""


def read_input(args: Sequence[RawValue], converter: PayloadConverter) -> ImageJobInput:
    """Decode the one argument of a job, or raise `UnreadableInputError`."""
    if len(args) != 1:
        raise UnreadableInputError(f"a job takes one input, an object; {len(args)} were given")
    payload = args[0].payload
    if len(payload.data) > MAX_INPUT_BYTES:
        raise UnreadableInputError(f"the input is larger than {MAX_INPUT_BYTES:,} bytes")
    try:
        request: object = converter.from_payload(payload, ImageJobInput)
    except ValidationError as error:
        raise UnreadableInputError(_in_words(error)) from error
    # Converters raise what they like, and a failed decode must end the job, not its task.
    except Exception as error:
        raise UnreadableInputError(_NOT_READABLE) from error
    # Bytes and nothing at all are decoded as what they are, whatever was asked for.
    if not isinstance(request, ImageJobInput):
        raise UnreadableInputError(_NOT_READABLE)
    if len(converter.to_payload(request).data) > MAX_REQUEST_BYTES:
        raise UnreadableInputError(f"the input is larger than {MAX_REQUEST_BYTES:,} bytes of JSON")
    return request


def _in_words(error: ValidationError) -> str:
    faults = (
        f"{'.'.join(str(part) for part in fault['loc']) or 'input'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    )
    return "the input is not valid: " + "; ".join(faults)
