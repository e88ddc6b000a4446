"""What the API process is told by the environment."""

from ipaddress import ip_address

from pydantic import Field

from activities.settings import Settings


class ApiSettings(Settings):
    """`DARKROOM_X` is the field `x`. Sizes in bytes."""

    api_host: str = "127.0.0.1"
    api_port: int = Field(default=8000, ge=1, le=65_535)
    public_url: str = Field(default="", pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*[^\s/?#])?)?$")
    max_body_bytes: int = Field(default=256 * 1024, ge=1024, le=64 * 1024 * 1024)
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")

    @property
    def is_loopback_only(self) -> bool:
        """Whether only this machine can reach the API."""
        if self.api_host == "localhost":
            return True
        try:
            return ip_address(self.api_host).is_loopback
        except ValueError:
            return False
