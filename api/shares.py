"""What each tenant may have of the workers: its weight, and the highest priority it may ask for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fastapi.exceptions import RequestValidationError

from workflows.messages import LEAST_WEIGHT, MOST_WEIGHT, TENANT_PATTERN

ALL_OTHERS = "*"

_TENANT = re.compile(TENANT_PATTERN)
_NUMBER = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?")
_PRIORITY = re.compile("[0-9]")


def parse_weights(text: str) -> dict[str, float]:
    """Read `tenant=weight`, separated by commas; raises `ValueError`."""
    weights = {}
    for tenant, value in _entries(text).items():
        weights[_tenant(tenant)] = float(value) if _NUMBER.fullmatch(value) else 0.0
        if not LEAST_WEIGHT <= weights[tenant] <= MOST_WEIGHT:
            wanted = f"{LEAST_WEIGHT:g} to {MOST_WEIGHT:g}, with up to three decimals"
            raise ValueError(f"the weight of {tenant} must be {wanted}, not {value!r}")
    return weights


def parse_priorities(text: str) -> dict[str, int]:
    """Read `tenant=priority`, separated by commas, `*` for all others; raises `ValueError`."""
    priorities = {}
    for tenant, value in _entries(text).items():
        if not _PRIORITY.fullmatch(value):
            raise ValueError(f"the priority of {tenant} must be 0 to 9, not {value!r}")
        priorities[tenant if tenant == ALL_OTHERS else _tenant(tenant)] = int(value)
    return priorities


def _entries(text: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        tenant, is_given, value = part.partition("=")
        if not is_given:
            raise ValueError(f"{part!r} is not `tenant=number`")
        if tenant in entries:
            raise ValueError(f"{tenant} is named twice")
        entries[tenant] = value
    return entries


def _tenant(name: str) -> str:
    if not _TENANT.fullmatch(name):
        raise ValueError(f"{name!r} can be no tenant's name")
    return name


@dataclass(frozen=True)
class Share:
    """What one tenant may have."""

    weight: float = 1.0
    highest_priority: int = 9

    def require(self, priority: int) -> None:
        """Raise, in the words of a faulty field, where the tenant may not ask for it."""
        highest = self.highest_priority
        if priority > highest:
            allowed = f"0 to {highest}" if highest else "0"
            message = f"must be {allowed}: {highest} is the highest priority of this tenant's"
            raise RequestValidationError([{"loc": ("body", "priority"), "msg": message}])

    def cap(self, priority: int) -> int:
        """The priority, or the highest that the tenant may have."""
        return min(priority, self.highest_priority)


class Shares:
    """The shares of all tenants: weight 1 and every priority, where nothing else is said."""

    def __init__(self, weights: Mapping[str, float], highest: Mapping[str, int]) -> None:
        self._weights = weights
        self._highest = highest

    def of(self, tenant: str) -> Share:
        """One tenant's."""
        every = self._highest.get(ALL_OTHERS, Share.highest_priority)
        return Share(self._weights.get(tenant, Share.weight), self._highest.get(tenant, every))
