"""Bounds the tenant label (J4): the tenants that ask most have their name, all others together are ``other``.

Who comes first gets a name, and who asks twice as much as the least of the named takes its place: its series go, and
what it asks from then on counts with the others. Counts halve as requests come, so that last week's busy give way.

Trade-off: a tenant that climbs is among the others until then, and one that falls takes its series along. Sums of rates
over all tenants stay exact.
"""

from collections.abc import Callable

OTHER = "other"
HALVE_AT = 50_000
"""Requests after which all counts halve; also the most tenants that are counted."""
LOOK_EVERY = 32
"""A tenant without a name is compared with the named at each so many requests of its own."""


def _nobody(_: str) -> None:
    """Nobody has series to drop."""


class TenantLabels:
    """``name`` may hide names; ``on_drop`` is told the label of a tenant that has lost its name."""

    def __init__(self, limit: int = 50, name: Callable[[str], str] = str) -> None:
        self._limit, self._name = limit, name
        self.on_drop: Callable[[str], None] = _nobody
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._counted = 0

    def of(self, tenant: str) -> str:
        """Count a request of this tenant and return its label."""
        count = self._counts[tenant] = self._counts.get(tenant, 0) + 1
        self._counted += 1
        label = self._known.get(tenant)
        if label is None and len(self._known) < self._limit:
            label = self._known[tenant] = self._name(tenant)
        elif label is None and self._limit and count % LOOK_EVERY == 0:
            label = self._in_place_of_another(tenant, count)
        if self._counted >= HALVE_AT:
            self._halve()
        return label or OTHER

    def _in_place_of_another(self, tenant: str, count: int) -> str | None:
        """Give it the name of whoever asks least, where it asks twice as much."""
        least = min(self._known, key=lambda one: self._counts.get(one, 0))
        if count < 2 * self._counts.get(least, 0):
            return None
        self.on_drop(self._known.pop(least))
        label = self._known[tenant] = self._name(tenant)
        return label

    def _halve(self) -> None:
        self._counted = 0
        self._counts = {tenant: count // 2 for tenant, count in self._counts.items() if count > 1}
