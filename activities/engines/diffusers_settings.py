"""What the diffusers engine is told by the environment: variables `DARKROOM_DIFFUSERS_*`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from activities.errors import ErrorKind, WorkError

_PREFIX = "DARKROOM_DIFFUSERS_"


class DiffusersSettings(BaseModel):
    """Where the pipeline is, and what it runs on; `threads` None leaves the number to torch."""

    model_config = ConfigDict(frozen=True)

    model: str = ""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    threads: int | None = Field(default=None, ge=1, le=1024)
    variant: str = Field(default="", pattern="^[A-Za-z0-9_-]*$")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read our variables; raises `WorkError`. An empty one counts as not set."""
        values = {
            name: environ[_PREFIX + name.upper()]
            for name in cls.model_fields
            if environ.get(_PREFIX + name.upper())
        }
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise unavailable("; ".join(_in_words(error))) from error

    @property
    def folder(self) -> Path:
        """The pipeline's folder; raises `WorkError` if none is named."""
        if not self.model:
            raise unavailable(f"{_PREFIX}MODEL is not set: it names the folder of a pipeline.")
        return Path(self.model).expanduser().absolute()


def unavailable(message: str) -> WorkError:
    """The engine can't serve at all; an operator has to act."""
    return WorkError(ErrorKind.ENGINE_UNAVAILABLE, message)


def _in_words(error: ValidationError) -> list[str]:
    return [
        f"{_PREFIX}{str(problem['loc'][0]).upper()}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    ]
