"""Public addresses: what is none, in whatever form, and what is."""

import random
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.callbacks.addresses import address_of, check_address, is_public
from activities.callbacks.errors import CallbackRefusedError

# One at each end of what is forbidden, and what lies right beside it.
FORBIDDEN_4 = [
    *("0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255"),  # noqa: S104
    *("100.100.100.200", "127.0.0.0", "127.0.0.1", "127.255.255.255", "168.63.129.16"),
    *("169.254.0.0", "169.254.169.254", "169.254.170.2", "169.254.255.255"),
    *("172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.9", "192.0.0.10", "192.0.0.192"),
    *("192.0.0.255", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1"),
    *("192.168.0.0", "192.168.255.255", "192.175.48.1", "198.18.0.0", "198.19.255.255"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.0", "224.0.0.1", "239.255.255.255", "240.0.0.0"),
    *("255.255.255.254", "255.255.255.255"),
]
PUBLIC_4 = [
    *("1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34"),
    *("100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "168.63.129.15"),
    *("168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"),
    *("191.255.255.255", "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255"),
    *("198.20.0.0", "223.255.255.255"),
]
FORBIDDEN_6 = [
    *("::", "::1", "::2", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "feff::1"),
    *("fc00::1", "fd00:ec2::254", "fdff:ffff::1", "ff00::", "ff02::1", "ff0e::1", "100::1"),
    *("2001::1", "2001:0:4136:e378::1", "2001:10::1", "2001:20::1", "2001:2::1", "2001:1ff::1"),
    *("2001:db8::1", "2002::1", "2620:4f:8000::1", "3fff::1", "3fff:fff::1", "5f00::1"),
    *("4000::1", "1fff::1", "64:ff9b::", "64:ff9b:1::1", "64:ff9b:1:ffff::1", "::ffff:0:1.1.1.1"),
    *("2a00:1450::5efe:10.0.0.1", "2a00:1450::200:5efe:10.0.0.1"),
]
PUBLIC_6 = [
    *("2000::1", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700:4700::1111"),
    *("2620:4f:8001::1", "2a00:1450:4001::200e", "3ffe::1"),
]


quick = settings(max_examples=300, deadline=None, database=None)


@pytest.mark.parametrize("text", [*FORBIDDEN_4, *FORBIDDEN_6])
def test_address_that_is_not_public_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(CallbackRefusedError) as refusal:
        check_address(ip_address(text))
    assert text not in str(refusal.value)


@pytest.mark.parametrize("text", [*PUBLIC_4, *PUBLIC_6])
def test_public_address_is_allowed(text: str) -> None:
    check_address(ip_address(text))


@pytest.mark.parametrize("prefix", ["::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"])
@pytest.mark.parametrize("text", [*FORBIDDEN_4, *PUBLIC_4])
def test_ipv4_address_in_an_ipv6_one_is_refused_whatever_it_is(prefix: str, text: str) -> None:
    assert not is_public(IPv6Address(int(IPv6Address(prefix)) + int(IPv4Address(text))))


@pytest.mark.parametrize("text", [*FORBIDDEN_4, *PUBLIC_4])
def test_ipv4_address_in_a_tunnel_is_refused(text: str) -> None:
    inner = int(IPv4Address(text))
    for tunnel in (
        IPv6Address((0x2002 << 112) | (inner << 80) | 1),
        IPv6Address((0x20010000 << 96) | (inner << 64) | 1),
        IPv6Address((0x20010000 << 96) | (inner ^ 0xFFFFFFFF)),
    ):
        assert not is_public(tunnel)


@quick
@given(st.ip_addresses(v=4))
def test_nothing_is_public_that_python_calls_otherwise(address: IPv4Address) -> None:
    is_other = address.is_private or address.is_multicast or address.is_reserved
    assert not (is_public(address) and (is_other or not address.is_global))


@quick
@given(st.ip_addresses(v=6))
def test_every_public_ipv6_address_is_a_global_unicast_one(address: IPv6Address) -> None:
    assert not is_public(address) or address in IPv6Network("2000::/3")


def test_most_of_the_internet_is_public() -> None:
    numbers = random.Random(1)
    drawn = [IPv4Address(numbers.getrandbits(32)) for _ in range(2000)]
    # Four fifths of all addresses can be hosts.
    assert sum(is_public(address) for address in drawn) > 1600
    unicast = int(ip_network("2600::/12").network_address)
    assert all(is_public(IPv6Address(unicast + numbers.getrandbits(116))) for _ in range(100))


@pytest.mark.parametrize("text", ["", "1.1.1", "01.1.1.1", "x", "::1::", "1.1.1.1/32", "[::1]"])
def test_text_that_is_no_address_is_none(text: str) -> None:
    assert address_of(text) is None
