"""Which IP addresses messages may go to: public ones, in whatever form they are hidden.

The lists are IANA's special-purpose registries, and more: what this Python calls global changes
from version to version, and has exceptions.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from activities.callbacks.errors import CallbackRefusedError

Address = IPv4Address | IPv6Address

_FORBIDDEN_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # "this" network: Linux connects it to itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' NAT, and metadata at Alibaba
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's own services, though the address is public
        "169.254.0.0/16",  # link-local: metadata nearly everywhere
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, and metadata at Oracle
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)

# Everything else holds no public host: loopback, unique local, link-local and site-local,
# multicast, and IPv4 addresses that are mapped, compatible, or behind NAT64 (64:ff9b::/96 and
# 64:ff9b:1::/48).
_GLOBAL_6 = IPv6Network("2000::/3")
_FORBIDDEN_6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
# ISATAP: an IPv4 address behind this identifier of an interface, or with its "universal" bit set.
_ISATAP = 0x00005EFE
_UNIVERSAL_BIT = 0x02000000


def is_public(address: Address) -> bool:
    """Whether it is a host of the public internet, and named as one."""
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _FORBIDDEN_4)
    identifier = (int(address) >> 32) & 0xFFFFFFFF & ~_UNIVERSAL_BIT
    is_listed = any(address in network for network in _FORBIDDEN_6)
    return address in _GLOBAL_6 and address.is_global and not is_listed and identifier != _ISATAP


def check_address(address: Address) -> None:
    """Raises `CallbackRefusedError`, which doesn't tell the address."""
    if not is_public(address):
        raise CallbackRefusedError("must lead to public addresses only; this one does not")


def address_of(text: str) -> Address | None:
    """The address that a text is in full, as `getaddrinfo` writes it, a zone included."""
    try:
        return ip_address(text)
    except ValueError:
        return None
