"""Bodies that may crash engines: those that were in flight when workers were lost. Pure.

Two losses prove nothing: the caller is told to retry. They are remembered for some minutes, in which the body is sent
to only one worker. If that worker is lost too, the body is refused until the losses are forgotten; an answer clears
them (a query of death: SRE book, chapter 22).

Trade-off: a body is identified by its digest, so a changed one is unknown.
"""

from dataclasses import dataclass

from penstock.domain.ids import TenantId

MOST_LOST = 2
"""Workers that may be lost with a body in flight before its caller must retry."""
MOST_EVER = 3
"""Workers that may be lost with a body before it is refused."""


LASTS_S = 180.0
"""A loss's lifetime."""
MOST_BODIES, MOST_TENANTS = 64, 256
"""The most bodies per tenant, and the most tenants."""


@dataclass(frozen=True, slots=True)
class _Known:
    losses: int
    until: float


class Poison:
    __slots__ = ("_lapses_at", "_of")

    def __init__(self) -> None:
        self._of: dict[TenantId, dict[bytes, _Known]] = {}
        self._lapses_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._of)

    def losses(self, who: TenantId, body: bytes, now: float) -> int:
        if now >= self._lapses_at:
            self._of.clear()
        known = self._of.get(who, {}).get(body)
        return known.losses if known is not None and now < known.until else 0

    def lost(self, who: TenantId, body: bytes, losses: int, now: float) -> None:
        """``losses``: those known at the request's start, plus its own."""
        losses = max(losses, self.losses(who, body, now))
        bodies = self._of.pop(who, {})
        bodies.pop(body, None)
        self._lapses_at = now + LASTS_S
        bodies[body] = _Known(losses, self._lapses_at)
        if len(bodies) > MOST_BODIES:
            del bodies[next(iter(bodies))]
        self._of[who] = bodies
        if len(self._of) > MOST_TENANTS:
            del self._of[next(iter(self._of))]

    def answered(self, who: TenantId, body: bytes) -> None:
        bodies = self._of.get(who)
        if bodies is not None and bodies.pop(body, None) is not None and not bodies:
            del self._of[who]


def is_enough(losses: int, lost: int) -> bool:
    """Tell whether no further worker may get a request, by its body's losses and its own."""
    return lost > 0 and max(losses, lost) >= MOST_LOST
