"""C2PA's report on a file, boiled down. Its content was written by whoever made the file."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from activities.values import Model

_STATES: dict[str, Literal["invalid", "valid", "trusted"]] = {
    "Valid": "valid",
    "Trusted": "trusted",
}


class CredentialsSummary(Model):
    """What a file's credentials say.

    "valid": signed, and the file is as it was signed. "trusted": also by somebody on the list of
    anchors that was given. "invalid": changed since, or signed wrongly. `problems` has C2PA's
    codes for what speaks against it.
    """

    state: Literal["absent", "invalid", "valid", "trusted"]
    signer: str | None = None
    actions: tuple[str, ...] = ()
    digital_source_type: str | None = None
    has_parent: bool = False
    problems: tuple[str, ...] = ()


class _Signature(Model):
    common_name: str | None = None
    issuer: str | None = None


class _Ingredient(Model):
    relationship: str = ""


class _Assertion(Model):
    label: str = ""
    data: Any = None


class _Manifest(Model):
    signature_info: _Signature = _Signature()
    ingredients: tuple[_Ingredient, ...] = ()
    assertions: tuple[_Assertion, ...] = ()

    def actions(self) -> Iterator[dict[str, Any]]:
        for assertion in self.assertions:
            if assertion.label.startswith("c2pa.actions") and isinstance(assertion.data, dict):
                found = assertion.data.get("actions")
                yield from (each for each in found or () if isinstance(each, dict))


class _Finding(Model):
    code: str


class _Findings(Model):
    failure: tuple[_Finding, ...] = ()


class _Results(Model):
    active_manifest: _Findings = Field(default=_Findings(), alias="activeManifest")


class CredentialsReport(Model):
    """The part of the report that matters here."""

    active_manifest: str = ""
    manifests: dict[str, _Manifest] = Field(default_factory=dict)
    validation_state: str = ""
    validation_results: _Results = _Results()

    def summary(self) -> CredentialsSummary:
        manifest = self.manifests.get(self.active_manifest, _Manifest())
        actions = list(manifest.actions())
        sources = (action.get("digitalSourceType") for action in actions)
        failures = self.validation_results.active_manifest.failure
        return CredentialsSummary(
            state=_STATES.get(self.validation_state, "invalid"),
            signer=manifest.signature_info.common_name or manifest.signature_info.issuer,
            actions=tuple(str(action.get("action")) for action in actions),
            digital_source_type=next((s for s in sources if isinstance(s, str)), None),
            has_parent=any(each.relationship == "parentOf" for each in manifest.ingredients),
            problems=tuple(dict.fromkeys(finding.code for finding in failures)),
        )
