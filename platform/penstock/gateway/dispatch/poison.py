"""Which bodies may kill engines: those that were in flight when workers were lost. Pure.

Workers are lost for many reasons, and two losses prove nothing: the caller is told to come back. The losses of a
tenant's body are remembered for some minutes. A body with two is sent to one worker; if that one is lost too it is
refused until the minutes are over, and if it is answered all is forgotten (a query of death: SRE book, chapter 22).
Requests that were under way together count as one: their worker was lost once. A worker that was in doubt when it got
the body is no loss of it: it may have been gone.

Trade-off: a body is known by its digest, so a changed one is unknown again. That stops clients that repeat themselves,
not a search for bodies that kill; those cost two workers each, as before.
"""

from dataclasses import dataclass

from penstock.domain.ids import TenantId

MOST_LOST = 2
"""Workers that may be lost with a body in flight, before its caller has to come back for another one."""
MOST_EVER = 3
"""Workers that may be lost with it at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonSettings:
    """For how long a body is remembered after its last loss, and how many: of each tenant, and of how many tenants."""

    lasts_s: float = 180.0
    most_bodies: int = 64
    most_tenants: int = 256


@dataclass(frozen=True, slots=True)
class _Known:
    losses: int
    until: float


class Poison:
    """Tenant → digest of a body → its losses; empty but for minutes after workers were lost."""

    __slots__ = ("_lapses_at", "_of", "_settings")

    def __init__(self, settings: PoisonSettings | None = None) -> None:
        self._settings = settings or PoisonSettings()
        self._of: dict[TenantId, dict[bytes, _Known]] = {}
        self._lapses_at = 0.0

    def __bool__(self) -> bool:
        """Tell whether anything may be known."""
        return bool(self._of)

    def losses(self, who: TenantId, body: bytes, now: float) -> int:
        """Return how many workers were lost with this body in flight, up to monotonic second ``now``."""
        if now >= self._lapses_at:
            self._of.clear()
        known = self._of.get(who, {}).get(body)
        return known.losses if known is not None and now < known.until else 0

    def lost(self, who: TenantId, body: bytes, losses: int, now: float) -> None:
        """Another one was lost; ``losses``: those that were known when the request began, and its own."""
        losses = max(losses, self.losses(who, body, now))
        bodies = self._of.pop(who, {})
        bodies.pop(body, None)
        self._lapses_at = now + self._settings.lasts_s
        bodies[body] = _Known(losses, self._lapses_at)
        if len(bodies) > self._settings.most_bodies:
            del bodies[next(iter(bodies))]
        self._of[who] = bodies
        if len(self._of) > self._settings.most_tenants:
            del self._of[next(iter(self._of))]

    def answered(self, who: TenantId, body: bytes) -> None:
        """A worker answered it: it was not what killed the others."""
        bodies = self._of.get(who)
        if bodies is not None and bodies.pop(body, None) is not None and not bodies:
            del self._of[who]


def is_enough(losses: int, lost: int) -> bool:
    """Tell whether no other worker is to have a request, by its body's losses and the workers that it lost itself."""
    return lost > 0 and max(losses, lost) >= MOST_LOST
