"""Settings from the environment: every `DARKROOM_X` is a field `x`, here or in the API."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from activities.artifacts import open_store
from activities.callbacks.rules import (
    DEFAULT_PORTS,
    CallbackRules,
    parse_ports,
    parse_private_hosts,
)

_ENGINE = re.compile(r"([a-z0-9][a-z0-9_-]{0,39})(?:=([\w.]+:\w+))?")


class SettingsError(Exception):
    """A variable of the environment has a value that can't be used; the message names it."""


def parse_engines(text: str) -> dict[str, str]:
    """Read `name` or `name=module:Class`, separated by commas; an unnamed class is built in."""
    engines: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _ENGINE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is neither `name` nor `name=module:Class`")
        if match[1] in engines:
            raise ValueError(f"the engine {match[1]} is named twice")
        engines[match[1]] = match[2] or ""
    if not engines:
        raise ValueError("at least one engine is needed")
    return engines


def _readable_hosts(text: str) -> str:
    parse_private_hosts(text)
    return text


class EnvironSettings(BaseModel):
    """What the environment says; each variable is the prefix and a field's name."""

    model_config = ConfigDict(frozen=True)

    prefix: ClassVar[str] = "DARKROOM_"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Read our variables; raises `SettingsError`. An empty one counts as not set."""
        values = {
            name: environ[cls.prefix + name.upper()]
            for name in cls.model_fields
            if environ.get(cls.prefix + name.upper())
        }
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError("; ".join(_in_words(error, cls.prefix))) from error


class Settings(EnvironSettings):
    """What every process of ours is told; times in seconds."""

    data_dir: Path = Path("data")
    store_url: Annotated[str, AfterValidator(lambda url: open_store(url) and url)] = ""
    engines: Annotated[str, AfterValidator(lambda text: parse_engines(text) and text)] = (
        "procedural"
    )
    callback_ports: Annotated[str, AfterValidator(lambda text: parse_ports(text) and text)] = (
        DEFAULT_PORTS
    )
    callback_private_hosts: Annotated[str, AfterValidator(_readable_hosts)] = ""

    @property
    def callback_rules(self) -> CallbackRules:
        """Where messages for applications may go."""
        return CallbackRules.parse(self.callback_ports, self.callback_private_hosts)

    @property
    def engine_classes(self) -> dict[str, str]:
        """Engine names, each with the class that runs it, `module:Class`; empty if built in."""
        return parse_engines(self.engines)

    @property
    def artifacts_url(self) -> str:
        """Where artifacts are: the given URL, or a folder of the data folder."""
        return self.store_url or (self.data_dir.absolute() / "artifacts").as_uri()


class WorkerSettings(Settings):
    """What a worker process is told."""

    generate_slots: int = Field(default=2, ge=1, le=64)
    postprocess_slots: int = Field(default=1, ge=1, le=64)
    grace_seconds: float = Field(default=20, ge=1, le=3600)
    cancel_grace_seconds: float = Field(default=3, ge=0.1, le=600)
    pause_grace_seconds: float = Field(default=30, ge=0.1, le=3600)
    stall_load_seconds: float = Field(default=300, ge=1, le=86_400)
    stall_step_seconds: float = Field(default=120, ge=1, le=86_400)
    stall_decode_seconds: float = Field(default=120, ge=1, le=86_400)
    stall_store_seconds: float = Field(default=60, ge=1, le=86_400)
    archive_interval_seconds: float = Field(default=300, ge=1, le=86_400)
    archive_settle_seconds: float = Field(default=60, ge=0, le=86_400)
    health_host: str = "127.0.0.1"
    health_port: int = Field(default=8001, ge=0, le=65_535)
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")


def _in_words(error: ValidationError, prefix: str) -> list[str]:
    return [
        f"{prefix}{str(fault['loc'][0]).upper()}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in error.errors(include_url=False, include_context=False)
    ]
