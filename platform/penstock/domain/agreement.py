"""How often one rule's model would have answered as another's did: what is counted of an auto alias's comparisons.

Of some requests that a rule has answered, the model of the rule that it is compared with is asked too, unseen. Counts
only, never a text. They say how often the two agree, and not which one is right.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from penstock.domain.ids import Alias, VersionId

PERCENT = 100
_NORMAL = 1.96
"""Standard deviations on each side of a mean that hold 95 % of a normal distribution."""


class Pair(NamedTuple):
    """Who is compared: what ``rule`` of an alias answered by ``version`` is asked of ``other``'s model as well."""

    alias: Alias
    rule: str
    version: VersionId
    other: str
    other_version: VersionId


class Counts(NamedTuple):
    """What came of some comparisons."""

    pairs: int = 0
    """Requests that both were asked; what was shed is none."""
    agreed: int = 0
    failed: int = 0
    """Those that the other one refused, failed at, or said nothing to."""
    untold: int = 0
    """Those that both answered, where nobody can tell whether they agree."""
    scored: int = 0
    """Those whose answer both have scored, token by token."""
    alike: int = 0
    """Sum over these: percent of the tokens for which both hold the same one for the likeliest."""
    paid: int = 0
    """Sum of what the answers cost (``Price.uncached``), over those where both prices are known."""
    other_paid: int = 0
    """And of what the other one's cost."""

    @property
    def differed(self) -> int:
        """How many were answered in another way."""
        return self.pairs - self.agreed - self.failed - self.untold

    @property
    def judged(self) -> int:
        """Of how many both answered, and it is known whether alike."""
        return self.agreed + self.differed

    def plus(self, other: "Counts") -> "Counts":
        """Return both together."""
        return Counts(*map(add, self, other))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What came of the comparisons of one pair."""

    pair: Pair
    counts: Counts

    @property
    def ratio(self) -> float | None:
        """How often the other one agreed, of those where that is known; None where there are none."""
        return self.counts.agreed / self.counts.judged if self.counts.judged else None

    @property
    def alike_ratio(self) -> float | None:
        """The mean part of an answer's tokens that both hold for the likeliest; None where none was scored."""
        return self.counts.alike / (PERCENT * self.counts.scored) if self.counts.scored else None

    @property
    def price_ratio(self) -> float | None:
        """What the other one's answers cost beside those that callers had; None where nobody knows."""
        return self.counts.other_paid / self.counts.paid if self.counts.paid else None


def together(told: Iterable[Agreement]) -> tuple[Agreement, ...]:
    """Add up what was told of each pair; in order of the pairs."""
    sums: dict[Pair, Counts] = {}
    for one in told:
        sums[one.pair] = sums.get(one.pair, Counts()).plus(one.counts)
    return tuple(Agreement(pair=pair, counts=sums[pair]) for pair in sorted(sums))


def between(part: int, whole: int) -> tuple[float, float]:
    """Return between which ratios the true one lies, with 95 % (Wilson 1927), for ``part`` of ``whole`` seen."""
    if not whole:
        return 0.0, 1.0
    seen, square = part / whole, _NORMAL**2
    middle = (seen + square / (2 * whole)) / (1 + square / whole)
    wide = _NORMAL / (1 + square / whole) * math.sqrt(seen * (1 - seen) / whole + square / (4 * whole**2))
    return max(0.0, min(seen, middle - wide)), min(1.0, max(seen, middle + wide))
