"""Where messages may go, as the environment says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from activities.callbacks.errors import CallbackRefusedError
from activities.callbacks.hosts import Host, check_host, parse_authority, parse_port

T = TypeVar("T")

DEFAULT_PORTS = "80,443"


@dataclass(frozen=True)
class CallbackRules:
    """The ports of public hosts, and hosts that are exempt: each at one port, or at all (None)."""

    ports: frozenset[int] = frozenset({80, 443})
    private_hosts: frozenset[tuple[str, int | None]] = frozenset()

    @classmethod
    def parse(cls, ports: str = DEFAULT_PORTS, private_hosts: str = "") -> "CallbackRules":
        """Read the two settings; raises `ValueError`."""
        return cls(parse_ports(ports), parse_private_hosts(private_hosts))

    def is_private(self, host: Host, port: int) -> bool:
        """Whether it is exempt from everything that is asked of a public host."""
        return not self.private_hosts.isdisjoint({(host.text, None), (host.text, port)})

    def check(self, host: Host, port: int) -> None:
        """Raises `CallbackRefusedError` for what can be refused without a look at the network."""
        if self.is_private(host, port):
            return
        check_host(host)
        if port not in self.ports:
            allowed = ", ".join(str(port) for port in sorted(self.ports))
            raise CallbackRefusedError(f"must have one of these ports: {allowed}")


def parse_ports(text: str) -> frozenset[int]:
    """Read ports, separated by commas; raises `ValueError`."""
    ports = frozenset(_named(part, parse_port) for part in _parts(text))
    if not ports:
        raise ValueError("at least one port is needed")
    return ports


def parse_private_hosts(text: str) -> frozenset[tuple[str, int | None]]:
    """Read `host` or `host:port`, separated by commas; raises `ValueError`."""
    entries = [_named(part, parse_authority) for part in _parts(text)]
    return frozenset((host.text, port) for host, port in entries)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _named(part: str, parse: Callable[[str], T]) -> T:
    """Say which one of several is wrong."""
    try:
        return parse(part)
    except CallbackRefusedError as error:
        raise ValueError(f"{part!r} {error}") from error
