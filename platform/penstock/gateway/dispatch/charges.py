"""Which failures are known to be the callers' own: of tenants and shapes that failed where the platform's probe passed.

Trade-off: what is charged raises no suspicion for a while, so that nobody keeps the platform busy with probing. A
worker that goes bad meanwhile is found by everybody else's failures, or when the charge has lapsed.
"""

from dataclasses import dataclass

from penstock.domain.ids import TenantId
from penstock.gateway.dispatch.records import Origin, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeSettings:
    """For how long, from how many shapes on a tenant is charged as a whole, and how many tenants are remembered."""

    lasts_s: float = 10.0
    whole_from: int = 4
    most_tenants: int = 1024


class Charges:
    """Tenant → shape → until when; empty but for minutes of trouble."""

    __slots__ = ("_of", "_settings")

    def __init__(self, settings: ChargeSettings) -> None:
        self._settings = settings
        self._of: dict[TenantId, dict[Shape, float]] = {}

    def __bool__(self) -> bool:
        """Tell whether anything may be charged."""
        return bool(self._of)

    def charge(self, origin: Origin, now: float) -> None:
        """The probe passed: it is this tenant's shape that fails."""
        shapes = self._of.pop(origin.tenant, {})
        lasting = {shape: until for shape, until in shapes.items() if until > now}
        if len(lasting) < self._settings.whole_from:
            lasting[origin.shape] = now + self._settings.lasts_s
        else:
            lasting = dict.fromkeys(lasting, now + self._settings.lasts_s)
        self._of[origin.tenant] = lasting
        if len(self._of) > self._settings.most_tenants:
            del self._of[next(iter(self._of))]

    def covers(self, origin: Origin, now: float) -> bool:
        """Tell whether this failure is the caller's own by what is known."""
        shapes = self._of.get(origin.tenant)
        if not shapes:
            return False
        lasting = [shape for shape, until in shapes.items() if until > now]
        if not lasting:
            del self._of[origin.tenant]
        return origin.shape in lasting or len(lasting) >= self._settings.whole_from

    def clear(self, origin: Origin) -> None:
        """The same tenant's shape was answered: it may fail for another reason next time."""
        shapes = self._of.get(origin.tenant)
        if shapes is not None:
            shapes.pop(origin.shape, None)
            if not shapes:
                del self._of[origin.tenant]
