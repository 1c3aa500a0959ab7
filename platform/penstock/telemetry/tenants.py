"""Bounds the tenant label (J4): the busiest tenants have their name, all others share ``other``.

A tenant with twice the requests of the least busy named tenant takes its label, and that tenant's series are dropped.
Counts are halved as requests arrive.

Trade-off: a growing tenant counts as ``other`` until then, and a replaced tenant loses its series.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from penstock.domain.tenancy.keys import Purpose, derive, tenant_label

OTHER = "other"
HALVE_AT = 50_000
"""Requests after which all counts halve; also the most tenants that are counted."""
LOOK_EVERY = 32
"""Requests of an unnamed tenant between comparisons with the named ones."""


class TenantNames(StrEnum):
    NAMED = "named"
    HASHED = "hashed"
    OFF = "off"


def _nobody(_: str) -> None: ...


class TenantLabels:
    """Assigns tenants their label values; ``name`` may pseudonymise them."""

    def __init__(self, limit: int = 50, name: Callable[[str], str] = str) -> None:
        self._limit, self._name = limit, name
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._counted = 0

    def of(self, tenant: str, on_drop: Callable[[str], None] = _nobody) -> str:
        """Counts a request, too; ``on_drop`` gets a label taken from another tenant."""
        count = self._counts[tenant] = self._counts.get(tenant, 0) + 1
        self._counted += 1
        label = self._known.get(tenant)
        if label is None and len(self._known) < self._limit:
            label = self._known[tenant] = self._name(tenant)
        elif label is None and self._limit and count % LOOK_EVERY == 0:
            label = self._in_place_of_another(tenant, count, on_drop)
        if self._counted >= HALVE_AT:
            self._halve()
        return label or OTHER

    def _in_place_of_another(self, tenant: str, count: int, on_drop: Callable[[str], None]) -> str | None:
        least = min(self._known, key=lambda one: self._counts.get(one, 0))
        if count < 2 * self._counts.get(least, 0):
            return None
        on_drop(self._known.pop(least))
        label = self._known[tenant] = self._name(tenant)
        return label

    def _halve(self) -> None:
        self._counted = 0
        self._counts = {tenant: count // 2 for tenant, count in self._counts.items() if count > 1}


def labels(names: TenantNames, limit: int, platform_key: bytes) -> TenantLabels:
    if names is TenantNames.OFF:
        return TenantLabels(limit=0)
    return TenantLabels(limit=limit, name=_namer(names, platform_key))


def scope_label(names: TenantNames, platform_key: bytes) -> Callable[[str], str]:
    """Return a function for labels of budgets' scopes, such as ``tenant:shop``."""
    if names is TenantNames.OFF:
        return lambda scope: f"{scope.partition(':')[0]}:{OTHER}"
    named = _namer(names, platform_key)
    return lambda scope: f"{scope.partition(':')[0]}:{named(scope.partition(':')[2])}"


def _namer(names: TenantNames, platform_key: bytes) -> Callable[[str], str]:
    if names is TenantNames.NAMED:
        return str
    return partial(tenant_label, label_key=derive(platform_key, Purpose.METRICS))
