"""The types of fields: what text, options and times clients may send, and how times are told."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, PlainSerializer, Strict

from workflows.times import in_utc

_MAX_OPTIONS_DEPTH = 8
_MAX_OPTIONS_BYTES = 64 * 1024
_FARTHEST_START = timedelta(days=366)
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE
)
_TIME_WANTED = "must be an RFC 3339 time with a zone, such as 2027-01-31T18:00:00Z"


def _clean(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    if "\0" in text:
        raise ValueError("must not contain the character NUL")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("must not contain a lone surrogate")
    return text


def _clean_json(value: Any, depth: int = 0) -> Any:
    """Refuse, at any depth, what JSON has no number or text for."""
    if depth > _MAX_OPTIONS_DEPTH:
        raise ValueError(f"must not be nested deeper than {_MAX_OPTIONS_DEPTH} levels")
    _clean(value)
    if isinstance(value, float) and value - value != 0:
        raise ValueError("must not contain NaN or infinity")
    if isinstance(value, dict):
        for key, item in value.items():
            _clean(key)
            _clean_json(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _clean_json(item, depth + 1)
    return value


def _whole(value: Any) -> Any:
    """To JSON Schema, and so to whoever reads our document, 512.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _timestamp(value: Any) -> datetime:
    """Parse a time strictly: one that is read in the wrong zone starts a job at the wrong hour."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError(_TIME_WANTED)
    try:
        at = datetime.fromisoformat(value.upper()).astimezone(UTC)
    # No such day or zone, a leap second, or a zone that moves the time out of the calendar.
    except (ValueError, OverflowError) as error:
        raise ValueError(_TIME_WANTED) from error
    if at.year < 2000:
        raise ValueError(_TIME_WANTED)
    if at > datetime.now(UTC) + _FARTHEST_START:
        raise ValueError(f"must be within the next {_FARTHEST_START.days} days")
    return at


def _clean_options(options: Any) -> Any:
    _clean_json(options)
    if len(json.dumps(options)) > _MAX_OPTIONS_BYTES:
        raise ValueError(f"must not be larger than {_MAX_OPTIONS_BYTES} bytes")
    return options


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _utc(at: datetime) -> str:
    return in_utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Whole = Annotated[int, BeforeValidator(_whole)]
# BeforeValidator: pydantic's own word for a lone surrogate is harder to understand.
Text = Annotated[str, BeforeValidator(_clean)]
Prompt = Annotated[Text, AfterValidator(_not_blank)]
Options = Annotated[dict[str, Any], BeforeValidator(_clean_options)]
Timestamp = Annotated[AwareDatetime, Strict(False), BeforeValidator(_timestamp)]
Label = Annotated[str, Field(min_length=1, max_length=63), BeforeValidator(_clean)]
LabelValue = Annotated[str, Field(max_length=255), BeforeValidator(_clean)]
UtcTime = Annotated[datetime, PlainSerializer(_utc, return_type=str)]
