"""Settings from the environment: every variable, and bad values by name."""

from pathlib import Path

import pytest

from activities.callbacks.rules import CallbackRules
from activities.settings import Settings, SettingsError, WorkerSettings, parse_engines

GOOD = [
    ("DATA_DIR", "/srv/x", Path("/srv/x")),
    ("STORE_URL", "file:///srv/y", "file:///srv/y"),
    ("ENGINES", "procedural,mine=my.engines:Engine", "procedural,mine=my.engines:Engine"),
    ("CALLBACK_PORTS", "443,8443", "443,8443"),
    ("CALLBACK_PRIVATE_HOSTS", "receiver:9000,[::1]", "receiver:9000,[::1]"),
    ("GENERATE_SLOTS", "3", 3),
    ("POSTPROCESS_SLOTS", "4", 4),
    ("GRACE_SECONDS", "45", 45),
    ("CANCEL_GRACE_SECONDS", "0.5", 0.5),
    ("PAUSE_GRACE_SECONDS", "90", 90),
    ("STALL_LOAD_SECONDS", "600", 600),
    ("STALL_STEP_SECONDS", "10", 10),
    ("STALL_DECODE_SECONDS", "11", 11),
    ("STALL_STORE_SECONDS", "12", 12),
    ("ARCHIVE_INTERVAL_SECONDS", "60", 60),
    ("ARCHIVE_SETTLE_SECONDS", "61", 61),
    ("HEALTH_HOST", "0.0.0.0", "0.0.0.0"),  # noqa: S104
    ("HEALTH_PORT", "0", 0),
    ("LOG_LEVEL", "DEBUG", "DEBUG"),
]

BAD = [
    ("STORE_URL", "http://x/y"),
    ("STORE_URL", "relative/folder"),
    ("ENGINES", ","),
    ("ENGINES", "Upper"),
    ("ENGINES", "a b"),
    ("ENGINES", "x=no-class"),
    ("ENGINES", "x=a:B:C"),
    ("ENGINES", "x=a:B,x=c:D"),
    ("ENGINES", "procedural,procedural"),
    ("ENGINES", "n" * 41),
    ("CALLBACK_PORTS", ","),
    ("CALLBACK_PORTS", "443,0"),
    ("CALLBACK_PORTS", "65536"),
    ("CALLBACK_PORTS", "https"),
    ("CALLBACK_PRIVATE_HOSTS", "http://receiver"),
    ("CALLBACK_PRIVATE_HOSTS", "receiver:0"),
    ("CALLBACK_PRIVATE_HOSTS", "::1"),
    ("CALLBACK_PRIVATE_HOSTS", "127.1"),
    ("CALLBACK_PRIVATE_HOSTS", "*.example.com"),
    ("GENERATE_SLOTS", "0"),
    ("GENERATE_SLOTS", "65"),
    ("GENERATE_SLOTS", "two"),
    ("POSTPROCESS_SLOTS", "0"),
    ("GRACE_SECONDS", "0"),
    ("GRACE_SECONDS", "nan"),
    ("GRACE_SECONDS", "inf"),
    ("CANCEL_GRACE_SECONDS", "-1"),
    ("PAUSE_GRACE_SECONDS", "1e9"),
    ("STALL_LOAD_SECONDS", "0.5"),
    ("STALL_STEP_SECONDS", "x"),
    ("STALL_DECODE_SECONDS", "0"),
    ("STALL_STORE_SECONDS", "99999"),
    ("HEALTH_PORT", "65536"),
    ("HEALTH_PORT", "http"),
    ("LOG_LEVEL", "LOUD"),
]


def read(**values: str) -> WorkerSettings:
    return WorkerSettings.from_environ({f"DARKROOM_{name}": text for name, text in values.items()})


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_variable_is_read(name: str, text: str, value: object) -> None:
    assert getattr(read(**{name: text}), name.lower()) == value


def test_every_setting_is_tried_here() -> None:
    assert {name.lower() for name, _, _ in GOOD} == set(WorkerSettings.model_fields)


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"^DARKROOM_{name}: "):
        read(**{name: text})


def test_all_bad_values_are_told_at_once() -> None:
    with pytest.raises(SettingsError, match=r"DARKROOM_ENGINES: .*; DARKROOM_HEALTH_PORT: "):
        read(ENGINES=",", HEALTH_PORT="x")


@pytest.mark.parametrize("name", [name for name, _, _ in GOOD])
def test_an_empty_variable_counts_as_not_set(name: str) -> None:
    assert read(**{name: ""}) == read()


def test_other_variables_are_none_of_our_business() -> None:
    assert read(NONSENSE="1") == WorkerSettings.from_environ({"HOME": "/root"}) == WorkerSettings()


def test_a_setting_is_the_same_for_every_process() -> None:
    environ = {"DARKROOM_DATA_DIR": "/srv/x", "DARKROOM_GENERATE_SLOTS": "many"}
    assert Settings.from_environ(environ).data_dir == Path("/srv/x")


@pytest.mark.parametrize(
    ("text", "engines"),
    [
        ("procedural", {"procedural": ""}),
        (" a , b_2=x.y:Z ,, ", {"a": "", "b_2": "x.y:Z"}),
        ("n" * 40, {"n" * 40: ""}),
    ],
)
def test_engines_are_names_with_an_optional_class(text: str, engines: dict[str, str]) -> None:
    assert parse_engines(text) == engines


def test_artifacts_are_in_the_data_folder_unless_a_url_is_given() -> None:
    assert read(DATA_DIR="/srv/a b").artifacts_url == "file:///srv/a%20b/artifacts"
    assert read(DATA_DIR="x").artifacts_url == (Path.cwd() / "x/artifacts").as_uri()
    assert read(DATA_DIR="/srv/x", STORE_URL="file:///y").artifacts_url == "file:///y"


def test_rules_of_callbacks_are_what_the_two_settings_say() -> None:
    assert read().callback_rules == CallbackRules()
    rules = read(CALLBACK_PORTS="8443", CALLBACK_PRIVATE_HOSTS="receiver").callback_rules
    assert rules == CallbackRules(frozenset({8443}), frozenset({("receiver", None)}))
