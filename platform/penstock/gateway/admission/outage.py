"""The policy while the shared store is away: the state, and how each limit holds. Pure.

Three states, as of any breaker. SHARED (closed): the store decides. ALONE (open): no request waits for it; each limit
is closed, held to this gateway's share, or open, as the operator says. RETURNING (half-open): the store answers and
learns of leases given meanwhile; both must agree to every request until all gateways have come back.

Trade-off: one failure opens, since a decision that waits costs more than a share of a limit for two seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.domain.command_error import CommandError
from penstock.domain.tenancy.limits import Draw, Measure


class Reach(StrEnum):
    """The state of the breaker; also a metric's label."""

    SHARED = "shared"
    ALONE = "alone"
    RETURNING = "returning"


class WhenAway(StrEnum):
    """How a limit holds while it can't be counted together."""

    CLOSED = "closed"
    """Requests that draw on it are refused."""
    SHARE = "share"
    """Each gateway gives its part: the limit by the number of gateways."""
    OPEN = "open"
    """It isn't asked; the alarm says so."""


POLICY: Mapping[Measure, WhenAway] = {
    measure: WhenAway.CLOSED if measure is Measure.SPEND else WhenAway.SHARE for measure in Measure
}
"""The default: money is never spent unseen, rates and slots hold in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds between tries, and how long those that are back wait for the others."""

    rest_s: float = 0.3
    patience_s: float = 4.0


class Breaker:
    """The state, and when it changes; ``now`` is monotonic seconds."""

    def __init__(self, times: Times | None = None) -> None:
        self._times = times or Times()
        self._since = 0.0
        self.reach = Reach.SHARED

    def failed(self, now: float) -> bool:
        """Note a failure; True if that changed the state."""
        changed = self.reach is not Reach.ALONE
        self.reach, self._since = Reach.ALONE, now
        return changed

    def may_try(self, now: float) -> bool:
        """Tell whether it is time to ask the store again."""
        return self.reach is Reach.ALONE and now >= self._since + self._times.rest_s

    def answered(self, now: float) -> None:
        if self.reach is Reach.ALONE:
            self.reach, self._since = Reach.RETURNING, now

    def met(self, now: float, *, all_there: bool) -> bool:
        """Note which gateways the store knows; True if it decides alone again: all are back, or the others are
        late.
        """
        if self.reach is Reach.RETURNING and (all_there or now >= self._since + self._times.patience_s):
            self.reach = Reach.SHARED
            return True
        return False


def share(draw: Draw, gateways: int) -> Draw:
    """Return this gateway's part of a draw, at least one of anything.

    A request that is larger than the part may take all of it; what it really uses is owed.
    """
    capacity = max(1, draw.capacity // gateways)
    return replace(
        draw, capacity=capacity, amount=min(draw.amount, capacity), refill_per_s=draw.refill_per_s / gateways
    )


def held_alone(draws: Sequence[Draw], policy: Mapping[Measure, WhenAway], gateways: int) -> tuple[Draw, ...]:
    """Return the parts of those draws that this gateway counts by itself."""
    return tuple(share(draw, gateways) for draw in draws if policy[draw.measure] is WhenAway.SHARE)


def closes(draws: Sequence[Draw], policy: Mapping[Measure, WhenAway]) -> bool:
    """Tell whether any of these limits refuses while the store is away."""
    return any(policy[draw.measure] is WhenAway.CLOSED for draw in draws)


def when_away(text: str) -> Mapping[Measure, WhenAway]:
    """Return the policy of each limit while the store is away: the defaults, changed by ``spend=share,tokens=open``."""
    policy = dict(POLICY)
    for part in filter(None, (part.strip() for part in text.split(","))):
        measure, _, what = part.partition("=")
        if measure not in set(Measure) or what not in set(WhenAway):
            measures, whats = ", ".join(Measure), ", ".join(WhenAway)
            raise CommandError(f"PENSTOCK_LIMITS_WHEN_AWAY: {part!r}", do=f"Say one of {measures} = one of {whats}.")
        policy[Measure(measure)] = WhenAway(what)
    return policy
