"""Hosts and ports as they stand in an address, in one form, or refused.

What is read here is what is connected to: any text that another reader could take for another host
is refused, such as a number that stands for an address, or letters that become others.
"""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from activities.callbacks.addresses import Address, check_address
from activities.callbacks.errors import CallbackRefusedError

_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([^:]*))?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# What the WHATWG's URL standard takes for a number, and so the whole host for an IPv4 address.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_NAME_LENGTH = 253
_INTERNAL_NAMES = (
    *("localhost", "localdomain", "local", "internal", "intranet", "private"),
    *("lan", "home", "corp", "home.arpa"),
)


@dataclass(frozen=True)
class Host:
    """A name in lower case, or an address in its shortest form, which has no brackets here."""

    text: str
    address: Address | None = None

    @property
    def in_url(self) -> str:
        """As it stands in an address, and in the header `Host`."""
        return f"[{self.text}]" if isinstance(self.address, IPv6Address) else self.text


def parse_authority(text: str) -> tuple[Host, int | None]:
    """Read `host` or `host:port`; raises `CallbackRefusedError`."""
    if "@" in text:
        raise CallbackRefusedError("must not have a user name or a password in it")
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        raise CallbackRefusedError(
            "must name a host, and an IPv6 address in brackets, such as https://example.com/hook"
        )
    return parse_host(match[1]), None if match[2] is None else parse_port(match[2])


def parse_port(text: str) -> int:
    """Read a port; raises `CallbackRefusedError`."""
    port = int(text) if _PORT.fullmatch(text) else 0
    if not 1 <= port <= 65_535:
        raise CallbackRefusedError("must have a port from 1 to 65535, without leading zeros")
    return port


def parse_host(text: str) -> Host:
    """Read a host; raises `CallbackRefusedError`."""
    if text.startswith("["):
        return _parse_ipv6(text[1:-1])
    if not text.isascii():
        raise CallbackRefusedError("must have a host in ASCII: write other letters as xn--…")
    name = text.lower()
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _parse_ipv4(name)
    if len(name) > _MAX_NAME_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        raise CallbackRefusedError(
            "must have a host name of letters, digits, hyphens and single dots, such as "
            "example.com, with no dot at its end"
        )
    return Host(name)


def check_host(host: Host) -> None:
    """Refuse what can't be public by its name or address alone."""
    if host.address is not None:
        return check_address(host.address)
    if "." not in host.text:
        raise CallbackRefusedError("must have the full name of a host, such as example.com")
    if any(host.text == name or host.text.endswith(f".{name}") for name in _INTERNAL_NAMES):
        raise CallbackRefusedError("must have the name of a public host, not of an internal one")
    return None


def _parse_ipv4(text: str) -> Host:
    try:
        address = IPv4Address(text)
    except AddressValueError as error:
        raise CallbackRefusedError(
            "must have a host name, or an IPv4 address as four decimal numbers without leading "
            "zeros, such as 1.1.1.1"
        ) from error
    return Host(str(address), address)


def _parse_ipv6(text: str) -> Host:
    try:
        # A zone would say through which of our interfaces.
        address = IPv6Address("" if "%" in text else text)
    except AddressValueError as error:
        raise CallbackRefusedError(
            "must have a valid IPv6 address between the brackets, without a zone"
        ) from error
    return Host(str(address), address)
