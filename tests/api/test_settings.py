"""ApiSettings: what the environment may say, and how it is told what it may not."""

import pytest

from activities.settings import SettingsError
from api.settings import ApiSettings


def test_empty_environment_serves_this_machine_only() -> None:
    settings = ApiSettings.from_environ({})
    assert (settings.api_host, settings.api_port) == ("127.0.0.1", 8000)
    assert settings.is_loopback_only
    assert settings.public_url == ""
    assert settings.max_body_bytes == 256 * 1024


def test_every_setting_is_read_from_its_variable() -> None:
    settings = ApiSettings.from_environ(
        {
            "DARKROOM_API_HOST": "0.0.0.0",  # noqa: S104
            "DARKROOM_API_PORT": "9000",
            "DARKROOM_PUBLIC_URL": "https://pictures.example/darkroom",
            "DARKROOM_MAX_BODY_BYTES": "2048",
            "DARKROOM_LOG_LEVEL": "DEBUG",
            "DARKROOM_ENGINES": "fast,slow=engines:Slow",
            "PATH": "/bin",
        }
    )
    assert settings.api_port == 9000
    assert settings.public_url == "https://pictures.example/darkroom"
    assert settings.max_body_bytes == 2048
    assert list(settings.engine_classes) == ["fast", "slow"]
    assert not settings.is_loopback_only


def test_no_keys_are_needed_on_loopback_or_where_that_is_allowed() -> None:
    everywhere = {"DARKROOM_API_HOST": "::"}
    assert ApiSettings.from_environ({}).may_be_open
    assert not ApiSettings.from_environ(everywhere).may_be_open
    assert ApiSettings.from_environ(everywhere | {"DARKROOM_ALLOW_NO_KEYS": "on"}).may_be_open


def test_empty_variable_counts_as_not_set() -> None:
    assert ApiSettings.from_environ({"DARKROOM_API_PORT": ""}).api_port == 8000


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_is_recognised(host: str) -> None:
    assert ApiSettings(api_host=host).is_loopback_only


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "darkroom.example"])  # noqa: S104
def test_other_hosts_are_not_taken_for_loopback(host: str) -> None:
    assert not ApiSettings(api_host=host).is_loopback_only


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("API_PORT", value) for value in ("x", "0", "65536", "-1", "80.5", "8000;rm")),
        *(("PUBLIC_URL", value) for value in ("pictures", "ftp://x", "http://", "http://x/")),
        *(("PUBLIC_URL", value) for value in ("http://x?y", "http://x#y", "http://x y", "//x")),
        *(("PUBLIC_URL", value) for value in ("javascript:alert(1)", "http://x\nHost: y")),
        *(("MAX_BODY_BYTES", value) for value in ("0", "1023", "x", str(2**40))),
        *(("ALLOW_NO_KEYS", value) for value in ("perhaps", "2")),
        *(("TENANT_REQUESTS_PER_SECOND", value) for value in ("-1", "nan", "inf", "many")),
        *(("TENANT_MAX_WAITING", value) for value in ("-1", "1.5", "x")),
        *(("TENANT_MAX_BULKS", value) for value in ("-1", "1.5", "x")),
        *(("LINK_SECONDS", value) for value in ("0", "1", str(2**40), "x")),
        ("LOG_LEVEL", "LOUD"),
        ("ENGINES", "Fast!"),
        ("ENGINES", ","),
        ("STORE_URL", "ftp://x"),
        ("STORE_URL", "relative/path"),
    ],
)
def test_unusable_value_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    variable = f"DARKROOM_{name}"
    with pytest.raises(SettingsError) as caught:
        ApiSettings.from_environ({variable: value})
    assert str(caught.value).startswith(f"{variable}: ")
    assert "\n" not in str(caught.value)


def test_every_unusable_value_is_told_at_once() -> None:
    with pytest.raises(SettingsError, match=r"DARKROOM_API_PORT.*DARKROOM_LOG_LEVEL"):
        ApiSettings.from_environ({"DARKROOM_API_PORT": "x", "DARKROOM_LOG_LEVEL": "x"})
