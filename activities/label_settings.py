"""What the worker is told about labels and provenance."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from activities.finishing import Finisher
from activities.imaging.labels.lettering import (
    DEFAULT_OPACITY,
    UnreadableFontError,
    own_profile,
)
from activities.imaging.labels.profile import Anchor, LabelProfile
from activities.imaging.provenance.record import PlainText
from activities.settings import EnvironSettings, SettingsError
from activities.signing import NoSigner, Signer, open_signer

_TEXTS = {
    "de": "KI-generiert",
    "en": "AI generated",
    "es": "Generado por IA",
    "fr": "Généré par IA",
    "ja": "AI生成",
    "pt": "Gerado por IA",
    "zh": "AI生成",
}


def _not_blank(name: str) -> str:
    if not name.strip():
        raise ValueError("must not be blank")
    return name


class LabelSettings(EnvironSettings):
    """Which label images carry, which ones of providers are known, and what files say.

    `label_profiles` is a folder of `*.json` files as `python -m activities.imaging.calibrate`
    writes them. `label_text` wins over the language's own words. The C2PA files are PEM.
    """

    visible_label: bool = True
    label_language: Literal["de", "en", "es", "fr", "ja", "pt", "zh"] = "en"
    label_text: str = ""
    label_font: Path | None = None
    label_opacity: float = Field(default=DEFAULT_OPACITY, ge=0.1, le=1)
    label_anchor: Anchor = Anchor.BOTTOM_RIGHT
    label_profiles: Path | None = None
    provenance_parameters: bool = True
    c2pa_certificates: Path | None = None
    c2pa_private_key: Path | None = None
    provider_name: Annotated[PlainText, AfterValidator(_not_blank)] = Field(
        default="Darkroom", max_length=200
    )

    def own_label(self) -> LabelProfile:
        """The service's own label; raises `SettingsError`."""
        text = self.label_text or _TEXTS[self.label_language]
        try:
            return own_profile(text, self.label_font, self.label_opacity, self.label_anchor)
        except UnreadableFontError as error:
            raise SettingsError(f"DARKROOM_LABEL_FONT: {error}") from error
        except ValueError as error:
            name = "DARKROOM_LABEL_TEXT" if self.label_text else "DARKROOM_LABEL_LANGUAGE"
            raise SettingsError(f"{name}: {error}") from error

    def provider_labels(self) -> list[LabelProfile]:
        """Those of providers; raises `SettingsError` where one of them can't be read."""
        if self.label_profiles is None:
            return []
        try:
            paths = sorted(p for p in self.label_profiles.iterdir() if p.suffix == ".json")
            return [LabelProfile.read(path) for path in paths]
        except OSError as error:
            raise SettingsError(f"DARKROOM_LABEL_PROFILES: {error.strerror}") from error
        except ValueError as error:
            raise SettingsError(f"DARKROOM_LABEL_PROFILES: {error}") from error

    def known_labels(self) -> list[LabelProfile]:
        """All that can be on an image; raises `SettingsError`."""
        return [self.own_label(), *self.provider_labels()]

    def signer(self) -> Signer:
        """Who signs what leaves the service, if anybody does; raises `SettingsError`."""
        certificates, private_key = self.c2pa_certificates, self.c2pa_private_key
        if certificates is None and private_key is None:
            return NoSigner()
        if certificates is None or private_key is None:
            missing = "CERTIFICATES" if certificates is None else "PRIVATE_KEY"
            raise SettingsError(f"DARKROOM_C2PA_{missing}: must be set where the other one is")
        return open_signer(certificates, private_key)

    def finisher(self) -> Finisher:
        """What generated images are finished with; raises `SettingsError`."""
        return Finisher(
            label=self.own_label() if self.visible_label else None,
            provider=self.provider_name,
            with_parameters=self.provenance_parameters,
            signer=self.signer(),
        )
