"""Agreement between the models of an auto alias's rules: counts of comparisons.

For a sample of the requests that one rule has answered, another rule's model is asked too, and its answer is discarded.
Only counts are kept, never a text.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from penstock.domain.ids import Alias, TenantId, VersionId

PERCENT = 100
_NORMAL = 1.96
"""Standard deviations on each side of a mean that hold 95 % of a normal distribution."""


class Pair(NamedTuple):
    """Requests that ``rule`` sent to ``version``, compared with ``other_version`` of the rule ``other``."""

    alias: Alias
    rule: str
    version: VersionId
    other: str
    other_version: VersionId


class Counts(NamedTuple):
    answered: int = 0
    """Requests that the rule has answered; most of them are not compared."""
    pairs: int = 0
    """Requests sent to both models; shed copies do not count."""
    failed: int = 0
    """Pairs in which the other model refused or failed."""
    untold: int = 0
    """Pairs answered by both, whose agreement can't be determined."""
    forms: int = 0
    """Pairs whose answers are requested JSON, or labels."""
    forms_agreed: int = 0
    texts: int = 0
    """Pairs whose answer both models have scored, token by token."""
    texts_agreed: int = 0
    alike: int = 0
    """Sum over scored pairs: the percent of tokens that both models find likeliest."""
    paid: int = 0
    """Cost of the callers' answers (``Price.uncached``), over pairs with both prices known."""
    other_paid: int = 0
    """Cost of the other model's answers, over the same pairs."""

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*map(add, self, other))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    pair: Pair
    tenant: TenantId
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    pair: Pair
    counts: Counts
    tenants: int
    """The number of tenants with compared requests."""
    most: float | None
    """The part of the tenant with the most; None without pairs."""

    @property
    def forms_ratio(self) -> float | None:
        return _ratio(self.counts.forms_agreed, self.counts.forms)

    @property
    def texts_ratio(self) -> float | None:
        return _ratio(self.counts.texts_agreed, self.counts.texts)

    @property
    def alike_ratio(self) -> float | None:
        """Mean part of tokens to which both models give the highest probability; None without texts."""
        return _ratio(self.counts.alike, PERCENT * self.counts.texts)

    @property
    def price_ratio(self) -> float | None:
        return _ratio(self.counts.other_paid, self.counts.paid)


def reported(told: Iterable[Agreement]) -> tuple[Reported, ...]:
    whole: dict[Pair, Counts] = {}
    pairs: dict[Pair, Counter[TenantId]] = {}
    for one in told:
        whole[one.pair] = whole.get(one.pair, Counts()).plus(one.counts)
        pairs.setdefault(one.pair, Counter())[one.tenant] += one.counts.pairs
    return tuple(_reported(pair, whole[pair], +pairs[pair]) for pair in sorted(whole))


def _reported(pair: Pair, counts: Counts, tenants: Counter[TenantId]) -> Reported:
    most = max(tenants.values(), default=0)
    return Reported(pair=pair, counts=counts, tenants=len(tenants), most=_ratio(most, counts.pairs))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def between(part: int, whole: int) -> tuple[float, float]:
    """The 95 % interval of the true ratio (Wilson 1927)."""
    if not whole:
        return 0.0, 1.0
    seen, square = part / whole, _NORMAL**2
    middle = (seen + square / (2 * whole)) / (1 + square / whole)
    wide = _NORMAL / (1 + square / whole) * math.sqrt(seen * (1 - seen) / whole + square / (4 * whole**2))
    return max(0.0, min(seen, middle - wide)), min(1.0, max(seen, middle + wide))
