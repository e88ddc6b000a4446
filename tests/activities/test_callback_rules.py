"""Rules: private hosts that are exempt, and everything else that is not."""

import pytest

from activities.callbacks.errors import CallbackRefusedError
from activities.callbacks.rules import CallbackRules
from activities.callbacks.urls import parse_callback_url


def is_allowed(url: str, private_hosts: str) -> bool:
    try:
        parse_callback_url(url, CallbackRules.parse(private_hosts=private_hosts))
    except CallbackRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("private_hosts", "url"),
    [
        ("localhost", "http://localhost:12345/x"),
        ("LocalHost", "http://LOCALHOST/"),
        ("receiver", "https://receiver:8443/"),
        ("receiver:9000", "http://receiver:9000/"),
        ("receiver:80", "http://receiver/"),
        ("a.internal , b.local:1", "http://b.local:1/"),
        ("127.0.0.1", "http://127.0.0.1:5000/"),
        ("[::1]:9000", "http://[::1]:9000/"),
        ("[::1]", "http://[0:0::1]:77/"),
        ("[0:0:0:0:0:0:0:1]", "http://[::1]/"),
        ("example.com:8080", "http://example.com:8080/"),
    ],
)
def test_named_host_is_allowed_at_the_named_port_or_at_any(private_hosts: str, url: str) -> None:
    assert is_allowed(url, private_hosts)
    assert not is_allowed(url, "")


@pytest.mark.parametrize(
    ("private_hosts", "url"),
    [
        ("localhost", "http://a.localhost/"),
        ("localhost", "http://127.0.0.1/"),
        ("receiver:9000", "http://receiver:9001/"),
        ("receiver:9000", "http://receiver/"),
        ("127.0.0.1", "http://127.0.0.2/"),
        ("127.0.0.1", "http://127.1/"),
        ("127.0.0.1", "http://2130706433/"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
        ("127.0.0.1", "http://x@127.0.0.1/"),
        ("[::1]:9000", "http://[::1]/"),
        ("a.internal", "http://b.a.internal/"),
        ("example.com:8080", "http://example.com:8081/"),
    ],
)
def test_exemption_covers_nothing_else(private_hosts: str, url: str) -> None:
    assert not is_allowed(url, private_hosts)


def test_exemption_takes_nothing_from_public_hosts() -> None:
    assert is_allowed("https://example.com/", "example.com:8080")


@pytest.mark.parametrize(
    "part", ["a b", "a:b:c", "::1", "u@h", "http://h", "[::1", "1.1", "h:", "-"]
)
def test_wrong_entry_is_named(part: str) -> None:
    with pytest.raises(ValueError, match="must") as refusal:
        CallbackRules.parse(private_hosts=f"good,{part}")
    assert repr(part) in str(refusal.value)
