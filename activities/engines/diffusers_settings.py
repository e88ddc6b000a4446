"""What the diffusers engine is told by the environment: variables `DARKROOM_DIFFUSERS_*`."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from activities.errors import ErrorKind, WorkError
from activities.settings import EnvironSettings, SettingsError


class DiffusersSettings(EnvironSettings):
    """Where the pipeline is, and what it runs on; `threads` None leaves the number to torch."""

    prefix: ClassVar[str] = "DARKROOM_DIFFUSERS_"

    model: str = ""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    threads: int | None = Field(default=None, ge=1, le=1024)
    variant: str = Field(default="", pattern="^[A-Za-z0-9_-]*$")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read our variables; raises `WorkError`. An empty one counts as not set."""
        try:
            return super().from_environ(environ)
        except SettingsError as error:
            raise unavailable(str(error)) from error

    @property
    def folder(self) -> Path:
        """The pipeline's folder; raises `WorkError` if none is named."""
        if not self.model:
            raise unavailable(f"{self.prefix}MODEL is not set: it names the folder of a pipeline.")
        return Path(self.model).expanduser().absolute()


def unavailable(message: str) -> WorkError:
    """The engine can't serve at all; an operator has to act."""
    return WorkError(ErrorKind.ENGINE_UNAVAILABLE, message)
