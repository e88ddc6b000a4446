"""Addresses of receivers: every odd form is refused, and the usual ones are read as they stand."""

import re
from ipaddress import IPv4Address, ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from activities.callbacks.addresses import is_public
from activities.callbacks.errors import CallbackRefusedError
from activities.callbacks.rules import CallbackRules
from activities.callbacks.urls import CallbackUrl, parse_callback_url

RULES = CallbackRules()

quick = settings(max_examples=300, deadline=None, database=None)

GOOD = [
    ("https://example.com/hook", "https", "example.com", 443, "/hook", "example.com"),
    ("http://example.com", "http", "example.com", 80, "/", "example.com"),
    ("HTTPS://EXAMPLE.Com:443/Hook?A=b", "https", "example.com", 443, "/Hook?A=b", "example.com"),
    ("https://example.com:80/", "https", "example.com", 80, "/", "example.com:80"),
    ("http://example.com:443/", "http", "example.com", 443, "/", "example.com:443"),
    ("https://example.com?x=1", "https", "example.com", 443, "/?x=1", "example.com"),
    ("https://example.com/a@b:c//..%2f", "https", "example.com", 443, "/a@b:c//..%2f", None),
    ("https://xn--bcher-kva.example/", "https", "xn--bcher-kva.example", 443, "/", None),
    ("https://a_b.x-y.example.co.uk/", "https", "a_b.x-y.example.co.uk", 443, "/", None),
    ("https://1.example.com/", "https", "1.example.com", 443, "/", None),
    ("https://example.0xg/", "https", "example.0xg", 443, "/", None),
    ("https://1.1.1.1/", "https", "1.1.1.1", 443, "/", "1.1.1.1"),
    ("https://[2606:4700:4700::1111]/", "https", "2606:4700:4700::1111", 443, "/", None),
    ("http://[2606:4700:0:0::1111]:443/", "http", "2606:4700::1111", 443, "/", None),
    ("https://mylocalhost.com/", "https", "mylocalhost.com", 443, "/", None),
    ("https://internal.example.com/", "https", "internal.example.com", 443, "/", None),
    (f"https://{'a' * 63}.com/", "https", f"{'a' * 63}.com", 443, "/", None),
    ("https://example.com/" + "a" * 1980, "https", "example.com", 443, "/" + "a" * 1980, None),
]

WRONG_FORM = [
    *("", " ", "x", "example.com", "//example.com/", "/hook", "https:", "https:/example.com"),
    *("https://", "https:///hook", "https://:443/", "https://?x", "https:\\\\example.com"),
    *("ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "ws://example.com/"),
    *("javascript:alert(1)", "data:,x", "httpss://example.com/", "https://example.com/#f", "#"),
    *("https://user@example.com/", "https://user:pw@example.com/", "https://@example.com/"),
    *("https://example.com@127.0.0.1/", "https://1.1.1.1@example.com/", "https://:@example.com/"),
    *("https://example.com\\@127.0.0.1/", "https://example.com\\.internal/", "https://a b.com/"),
    *("https://example.com/\n", "\nhttps://example.com/", "https://exam\tple.com/"),
    *(
        "https://example.com/a b",
        "https://example.com/a\\b",
        "https://example.com/\r\nX: y",
        "https://example.com/\x00",
    ),
    *("https://example.com/\x7f", "https://example.com/é", "https://exämple.com/"),
    *("https://example.com:/", "https://example.com:0/", "https://example.com:65536/"),
    *("https://example.com:0443/", "https://example.com:+443/", "https://example.com:443:443/"),
    *("https://example.com:44３/", "https://example.com:-1/", "https://example.com:1e2/"),
    *("https://example.com:99999999999999999999/", "https://example.com:https/"),
    *("https://example..com/", "https://.example.com/", "https://example.com./", "https://./"),
    *("https://-example.com/", "https://example-.com/", "https://exa!mple.com/", "https://*.com/"),
    *("https://example.com,a/", "https://exa%6Dple.com/", "https://%65xample.com/"),
    *("https://127.0.0.1%2f@example.com/", "https://1%2e1.1.1/", "https://a%00.com/"),
    *(f"https://{'a' * 64}.com/", f"https://{'a.' * 126}com/", "https://example.com/" + "a" * 1981),
    *("https://[]/", "https://[::1/", "https://::1/", "https://[2606:4700::1111]x/"),
    *("https://[2606:4700::1111%25eth0]/", "https://[2606:4700::1111%eth0]/", "https://[v1.x]/"),
    *("https://[[2606:4700::1111]]/", "https://[2606:4700:::1111]/", "https://[1.1.1.1]/"),
    *("https://2606:4700:4700::1111/", "https://[2606:4700::12345]/", "https://[g::1]/"),
]

# What browsers, libc or curl would take for an address; all of them loopback or link-local.
NUMBERS = [
    *("127.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "127.0.0.01", "127.0.0.001", "0127.0.0.1"),
    *("2130706433", "2130706433.", "02130706433", "017700000001", "0x7f000001", "0X7F000001"),
    *("0x7f.1", "0x7f.0.0.1", "0x7f.0x0.0x0.0x1", "0177.1", "0177.0.0.1", "0177.0.0.01"),
    *("127.0x1", "127.0.0x1", "0x7F.0000.0.1", "0", "0.", "0.0.0.0", "00", "0x", "0x.", "1.0x"),  # noqa: S104
    *(
        "2852039166",
        "0xa9fea9fe",
        "025177524776",
        "169.254.43518",
        "169.16689662",
        "169.254.0xa9fe",
    ),
    *("256.256.256.256", "1.1.1.256", "1.1.1.1.1", "1.1.1", "1.1.1.", "1.1.1.1.", "4294967296"),
    *("1.1.1.09", "1.1.1.08", "999", "example.1", "example.0x1", "example.com.127", "a.0x"),
    *("１２７.０.０.１", "①②⑦.⓪.⓪.①", "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "١٢٧.٠.٠.١"),
    *("0x7f.1.", "00000177.00000000.00000000.00000001", "127.0.0.1..", "0x00000000000007f.0.0.1"),
]

INTERNAL = [
    *(
        "localhost",
        "LOCALHOST",
        "LocalHost",
        "a.localhost",
        "a.b.localhost",
        "localhost.localdomain",
    ),
    *("printer.local", "metadata.google.internal", "db.internal", "x.intranet", "x.lan", "x.home"),
    *("x.corp", "x.private", "router.home.arpa", "home.arpa", "intranet", "redis", "com"),
    *("10.0.0.1", "100.64.0.1", "169.254.169.254", "168.63.129.16", "192.168.1.1", "172.16.0.1"),
    *("192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "100.100.100.200"),  # noqa: S104
    *(
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
    ),
    *("[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::169.254.169.254]", "[fe80::1]"),
    *("[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fc00::1]", "[fd00:ec2::254]"),
    *("[fec0::1]", "[ff02::1]", "[::ffff:0:127.0.0.1]", "[::ffff:1.1.1.1]", "[2001:db8::1]"),
]


@pytest.mark.parametrize(("text", "scheme", "host", "port", "target", "authority"), GOOD)
def test_usual_address_is_read_as_it_stands(
    text: str, scheme: str, host: str, port: int, target: str, authority: str | None
) -> None:
    url = parse_callback_url(text, RULES)
    assert (url.scheme, url.host.text, url.port, url.target) == (scheme, host, port, target)
    assert url.authority == authority or authority is None


def test_ipv6_address_has_brackets_in_the_header() -> None:
    url = parse_callback_url("https://[2606:4700:0:0:0::1111]:80/", RULES)
    assert url.authority == "[2606:4700::1111]:80"


@pytest.mark.parametrize("text", WRONG_FORM)
def test_address_of_another_form_is_refused_in_words_for_the_tenant(text: str) -> None:
    with pytest.raises(CallbackRefusedError, match=r"^must "):
        parse_callback_url(text, RULES)


@pytest.mark.parametrize("host", NUMBERS)
@pytest.mark.parametrize("form", ["http://{}/", "https://{}", "https://{}:443/hook?x"])
def test_host_that_is_a_number_in_an_odd_form_is_refused(host: str, form: str) -> None:
    with pytest.raises(CallbackRefusedError):
        parse_callback_url(form.format(host), RULES)


@pytest.mark.parametrize("host", INTERNAL)
@pytest.mark.parametrize("form", ["http://{}/", "https://{}", "https://{}:443/hook?x"])
def test_internal_host_is_refused(host: str, form: str) -> None:
    with pytest.raises(CallbackRefusedError, match=r"^must "):
        parse_callback_url(form.format(host), RULES)


@pytest.mark.parametrize("port", [1, 22, 25, 79, 81, 442, 444, 6379, 8080, 8443, 65_535])
def test_port_outside_the_allowed_is_refused_and_the_allowed_are_named(port: int) -> None:
    with pytest.raises(CallbackRefusedError, match=r"one of these ports: 80, 443$"):
        parse_callback_url(f"https://example.com:{port}/", RULES)


def test_ports_are_the_ones_of_the_rules() -> None:
    rules = CallbackRules.parse(ports="8443, 9000")
    assert parse_callback_url("https://example.com:8443/", rules).port == 8443
    with pytest.raises(CallbackRefusedError, match="8443, 9000"):
        parse_callback_url("https://example.com/", rules)


@pytest.mark.parametrize("user", ["u", "u:p", "", ":", "example.com", "127.0.0.1:80"])
def test_user_information_is_refused_as_what_it_is(user: str) -> None:
    with pytest.raises(CallbackRefusedError, match="a user name or a password"):
        parse_callback_url(f"https://{user}@example.com/", RULES)


def test_secret_of_an_address_is_in_no_refusal() -> None:
    for text in ("https://u:hunter2@example.com/", "https://example.com:81/?token=hunter2"):
        with pytest.raises(CallbackRefusedError) as refusal:
            parse_callback_url(text, RULES)
        assert "hunter2" not in str(refusal.value)


def parsed(text: str) -> CallbackUrl | None:
    try:
        return parse_callback_url(text, RULES)
    except CallbackRefusedError:
        return None


PIECES = st.sampled_from(
    [
        *"019.:/@[]%#?\\x-_ aZé。１\t\n\u2028\ufeff",
        *("http://", "https://", "localhost", "example.com", "443", "%00", "0x7f", "2130706433"),
        *("127.0.0.1", "10.0.0.1", "[::1]", "::ffff:"),
    ]
)


@quick
@given(st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=40))
@example("https://example.com\u0000")
def test_whatever_is_given_is_refused_or_read_as_another_reader_reads_it(rest: str) -> None:
    for text in (rest, f"https://{rest}"):
        url = parsed(text)
        if url is None:
            continue
        other = urlsplit(text)
        assert (url.scheme, other.username, other.fragment) == (other.scheme, None, "")
        assert url.port == (other.port or {"http": 80, "https": 443}[url.scheme])
        assert re.fullmatch(r"/[!-~]*|/\?[!-~]*", url.target)
        if url.host.address is None:
            assert url.host.text == other.hostname
            assert "." in url.host.text
        else:
            assert url.host.address == ip_address(other.hostname or "")
            assert is_public(url.host.address)


@quick
@given(st.ip_addresses(v=4), st.sampled_from(["{0}", "0x{0:x}", "0{0:o}", "{0:08d}", "0x0{0:X}"]))
def test_no_number_is_a_host_in_any_base(address: IPv4Address, form: str) -> None:
    number = int(address)
    assert parsed(f"https://{form.format(number)}/") is None
    first, rest = divmod(number, 1 << 24)
    assert parsed(f"https://{first}.{form.format(rest)}/") is None
    octets = [form.format(octet) for octet in address.packed]
    # Four decimal numbers are the one form that is read, and it is read as what it says.
    url = parsed(f"https://{'.'.join(octets)}/")
    assert url is None or (url.host.address == address and is_public(address))
