"""What the API process is told by the environment."""

from ipaddress import ip_address
from typing import Annotated

from pydantic import AfterValidator, Field

from activities.settings import Settings
from api.shares import Shares, parse_priorities, parse_weights


class ApiSettings(Settings):
    """`DARKROOM_X` is the field `x`. Sizes in bytes; of limits 0 is none."""

    api_host: str = "127.0.0.1"
    api_port: int = Field(default=8000, ge=1, le=65_535)
    public_url: str = Field(default="", pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*[^\s/?#])?)?$")
    max_body_bytes: int = Field(default=256 * 1024, ge=1024, le=64 * 1024 * 1024)
    allow_no_keys: bool = False
    tenant_requests_per_second: float = Field(default=1000, ge=0, le=1e6, allow_inf_nan=False)
    tenant_max_waiting: int = Field(default=10_000, ge=0, le=10_000_000)
    tenant_max_bulks: int = Field(default=100, ge=0, le=10_000)
    tenant_weights: Annotated[str, AfterValidator(lambda text: parse_weights(text) and text)] = ""
    tenant_max_priority: Annotated[
        str, AfterValidator(lambda text: parse_priorities(text) and text)
    ] = ""
    link_seconds: int = Field(default=3600, ge=2, le=30 * 86_400)
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")

    @property
    def shares(self) -> Shares:
        """What each tenant may have of the workers."""
        return Shares(
            parse_weights(self.tenant_weights), parse_priorities(self.tenant_max_priority)
        )

    @property
    def may_be_open(self) -> bool:
        """Whether everybody may be let in as long as there are no keys."""
        return self.is_loopback_only or self.allow_no_keys

    @property
    def is_loopback_only(self) -> bool:
        """Whether only this machine can reach the API."""
        if self.api_host == "localhost":
            return True
        try:
            return ip_address(self.api_host).is_loopback
        except ValueError:
            return False
