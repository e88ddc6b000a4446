"""Settings of labels and provenance: every variable, and bad values by name."""

from pathlib import Path

import pytest

from activities.imaging.labels.lettering import own_profile
from activities.imaging.labels.profile import Anchor
from activities.label_settings import LabelSettings
from activities.settings import SettingsError

GOOD = [
    ("VISIBLE_LABEL", "off", False),
    ("LABEL_LANGUAGE", "de", "de"),
    ("LABEL_TEXT", "Made by Acme", "Made by Acme"),
    ("LABEL_FONT", "/fonts/x.ttf", Path("/fonts/x.ttf")),
    ("LABEL_OPACITY", "0.8", 0.8),
    ("LABEL_ANCHOR", "top-left", Anchor.TOP_LEFT),
    ("LABEL_PROFILES", "/srv/labels", Path("/srv/labels")),
    ("PROVENANCE_PARAMETERS", "off", False),
    ("C2PA_CERTIFICATES", "/keys/chain.pem", Path("/keys/chain.pem")),
    ("C2PA_PRIVATE_KEY", "/keys/key.pem", Path("/keys/key.pem")),
    ("PROVIDER_NAME", "Acme", "Acme"),
]

BAD = [
    ("VISIBLE_LABEL", "maybe"),
    ("LABEL_LANGUAGE", "tlh"),
    ("LABEL_OPACITY", "0"),
    ("LABEL_OPACITY", "1.1"),
    ("LABEL_OPACITY", "nan"),
    ("LABEL_ANCHOR", "somewhere"),
    ("PROVENANCE_PARAMETERS", "2"),
    ("PROVIDER_NAME", "n" * 201),
    ("PROVIDER_NAME", " "),
    ("PROVIDER_NAME", "Ac\nme"),
]


def read(**values: str) -> LabelSettings:
    return LabelSettings.from_environ({f"DARKROOM_{name}": text for name, text in values.items()})


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_variable_is_read(name: str, text: str, value: object) -> None:
    assert getattr(read(**{name: text}), name.lower()) == value


def test_every_setting_is_tried_here() -> None:
    assert {name.lower() for name, _, _ in GOOD} == set(LabelSettings.model_fields)


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_is_told_by_its_variable(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"DARKROOM_{name}: "):
        read(**{name: text})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"LABEL_TEXT": "AI生成"}, "DARKROOM_LABEL_TEXT: .*U\\+6210"),
        ({"LABEL_LANGUAGE": "zh"}, "DARKROOM_LABEL_LANGUAGE: .*U\\+6210"),
        ({"LABEL_TEXT": "W" * 60}, "DARKROOM_LABEL_TEXT: the label's text is too wide"),
        ({"LABEL_FONT": "/no/such/font.ttf"}, "DARKROOM_LABEL_FONT: "),
        ({"LABEL_FONT": __file__, "LABEL_TEXT": "AI"}, "DARKROOM_LABEL_FONT: "),
    ],
)
def test_label_that_can_not_be_drawn_is_told_by_its_variable(
    values: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        read(**values).known_labels()


@pytest.mark.parametrize("language", ["de", "en", "es", "pt"])
def test_each_language_of_the_built_in_font_has_its_label(language: str) -> None:
    label = read(LABEL_LANGUAGE=language).own_label()
    assert (
        label.name
        == {
            **{"de": "KI-generiert", "en": "AI generated", "es": "Generado por IA"},
            **{"pt": "Gerado por IA"},
        }[language]
    )


def test_profiles_of_providers_are_read_from_their_folder(tmp_path: Path) -> None:
    for name in ("One", "Two"):
        own_profile(name).write(tmp_path / f"{name}.json")
    (tmp_path / "readme.txt").write_text("not a profile")
    labels = read(LABEL_PROFILES=str(tmp_path)).known_labels()
    assert [label.name for label in labels] == ["AI generated", "One", "Two"]


def test_profile_that_can_not_be_read_is_told_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "acme.json").write_text('{"name": "x"}')
    with pytest.raises(SettingsError, match=r"DARKROOM_LABEL_PROFILES: .*acme\.json"):
        read(LABEL_PROFILES=str(tmp_path)).known_labels()
    with pytest.raises(SettingsError, match="DARKROOM_LABEL_PROFILES: No such file"):
        read(LABEL_PROFILES=str(tmp_path / "nowhere")).known_labels()
