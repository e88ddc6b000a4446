"""Addresses of receivers, read strictly: what is refused here never reaches the network."""

import re
from dataclasses import dataclass

from activities.callbacks.errors import CallbackRefusedError
from activities.callbacks.hosts import Host, parse_authority
from activities.callbacks.models import MAX_URL_LENGTH
from activities.callbacks.rules import CallbackRules

_DEFAULT_PORTS = {"http": 80, "https": 443}
_PRINTABLE = re.compile(r"[!-~]*")
_URL = re.compile(r"(https?)://([^/?#]*)([/?].*)?", re.IGNORECASE)


@dataclass(frozen=True)
class CallbackUrl:
    """Where a message goes. `target` is path and query, as they were given."""

    scheme: str
    host: Host
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The header `Host`: the port stands there only where it isn't the scheme's own."""
        is_default = self.port == _DEFAULT_PORTS[self.scheme]
        return self.host.in_url if is_default else f"{self.host.in_url}:{self.port}"


def parse_callback_url(text: str, rules: CallbackRules) -> CallbackUrl:
    """Read an address, or raise `CallbackRefusedError`; names are not resolved here."""
    _check_characters(text)
    match = _URL.fullmatch(text)
    if match is None:
        raise CallbackRefusedError("must begin with https:// or http://")
    scheme, rest = match[1].lower(), match[3] or "/"
    host, port = parse_authority(match[2])
    url = CallbackUrl(
        scheme, host, port or _DEFAULT_PORTS[scheme], "/" * rest.startswith("?") + rest
    )
    rules.check(url.host, url.port)
    return url


def _check_characters(text: str) -> None:
    if len(text) > MAX_URL_LENGTH:
        raise CallbackRefusedError(f"must be at most {MAX_URL_LENGTH} characters long")
    if not _PRINTABLE.fullmatch(text) or "\\" in text:
        raise CallbackRefusedError(
            "must be ASCII without spaces, control characters and backslashes: write other "
            "characters of a path as %XX, and of a host as xn--…"
        )
    if "#" in text:
        raise CallbackRefusedError("must not have a fragment, which begins with #")
