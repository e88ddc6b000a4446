"""What all models are made of."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict


class Model(BaseModel):
    """A value: never changed after it was built. Unknown fields are ignored, so that a worker of
    an older build still reads what a newer one wrote."""

    model_config = ConfigDict(frozen=True)


def _in_utc(at: datetime) -> datetime:
    wanted = "must be a time in the years 2000 to 2200"
    try:
        at = at.astimezone(UTC)
    # A zone that moves the time out of the calendar.
    except OverflowError as error:
        raise ValueError(wanted) from error
    if not 2000 <= at.year <= 2200:
        raise ValueError(wanted)
    return at


# Of years in which every sum of a time and a limit is a time too.
UtcTime = Annotated[AwareDatetime, AfterValidator(_in_utc)]
