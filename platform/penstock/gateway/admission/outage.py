"""The policy while the shared store is unavailable: its state, and the treatment of each limit. Pure.

Three states, as in any circuit breaker. SHARED (closed): the store decides. ALONE (open): each limit is closed, held to
this gateway's share, or open. RETURNING (half-open): store and share must both grant until all gateways are back.

Trade-off: one failure opens the breaker, since waiting for a decision is worse than two seconds on a share of the
limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.domain.command_error import CommandError
from penstock.domain.tenancy.limits import Draw, Measure


class Reach(StrEnum):
    SHARED = "shared"
    ALONE = "alone"
    RETURNING = "returning"


class WhenAway(StrEnum):
    CLOSED = "closed"
    """Requests that need this limit are refused."""
    SHARE = "share"
    """Each gateway applies the limit divided by the number of gateways."""
    OPEN = "open"
    """The limit isn't applied; the alert says so."""


POLICY: Mapping[Measure, WhenAway] = {
    measure: WhenAway.CLOSED if measure is Measure.SPEND else WhenAway.SHARE for measure in Measure
}
"""The default: money is never spent uncounted, rates and slots are divided by the number of gateways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds between tries to reach the store, and seconds to wait for the other gateways' return."""

    rest_s: float = 0.3
    patience_s: float = 4.0


class Breaker:
    def __init__(self, times: Times | None = None) -> None:
        self._times = times or Times()
        self._since = 0.0
        self.reach = Reach.SHARED

    def failed(self, now: float) -> bool:
        changed = self.reach is not Reach.ALONE
        self.reach, self._since = Reach.ALONE, now
        return changed

    def may_try(self, now: float) -> bool:
        return self.reach is Reach.ALONE and now >= self._since + self._times.rest_s

    def answered(self, now: float) -> None:
        if self.reach is Reach.ALONE:
            self.reach, self._since = Reach.RETURNING, now

    def met(self, now: float, *, all_there: bool) -> bool:
        """Record a contact; True if the store decides alone again: all gateways are back, or late."""
        if self.reach is Reach.RETURNING and (all_there or now >= self._since + self._times.patience_s):
            self.reach = Reach.SHARED
            return True
        return False


def share(draw: Draw, gateways: int) -> Draw:
    """Return this gateway's share of a draw, at least one.

    A request larger than the share may take all of it; its excess is owed.
    """
    capacity = max(1, draw.capacity // gateways)
    return replace(
        draw, capacity=capacity, amount=min(draw.amount, capacity), refill_per_s=draw.refill_per_s / gateways
    )


def held_alone(draws: Sequence[Draw], policy: Mapping[Measure, WhenAway], gateways: int) -> tuple[Draw, ...]:
    return tuple(share(draw, gateways) for draw in draws if policy[draw.measure] is WhenAway.SHARE)


def closes(draws: Sequence[Draw], policy: Mapping[Measure, WhenAway]) -> bool:
    return any(policy[draw.measure] is WhenAway.CLOSED for draw in draws)


def when_away(text: str) -> Mapping[Measure, WhenAway]:
    """Return each limit's policy: the defaults, changed by ``spend=share,tokens=open``."""
    policy = dict(POLICY)
    for part in filter(None, (part.strip() for part in text.split(","))):
        measure, _, what = part.partition("=")
        if measure not in set(Measure) or what not in set(WhenAway):
            measures, whats = ", ".join(Measure), ", ".join(WhenAway)
            raise CommandError(f"PENSTOCK_LIMITS_WHEN_AWAY: {part!r}", do=f"Say one of {measures} = one of {whats}.")
        policy[Measure(measure)] = WhenAway(what)
    return policy
