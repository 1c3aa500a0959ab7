"""A judge for each version that shares an alias with another one: A/B reports that may be read at any moment.

The version with the largest share is the incumbent, the first of them where several have it; each other version with a
share is judged against it. A change of shares keeps the judges of the pairs that stay; of the others' evidence nothing
is left.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from penstock.control.rollout.gates import Gates
from penstock.control.rollout.judge import Judge
from penstock.domain.arms import ArmSecond
from penstock.domain.ids import Alias, VersionId
from penstock.domain.judgement import Judgement
from penstock.domain.model import Tier
from penstock.domain.table import Route


class Pair(NamedTuple):
    """A candidate beside its incumbent."""

    alias: Alias
    incumbent: VersionId
    candidate: VersionId


class Comparisons:
    """The judges of now."""

    def __init__(self, gates: Callable[[Tier], Gates]) -> None:
        """Take the tolerances by tier."""
        self._gates = gates
        self._judges: dict[Pair, Judge] = {}
        self._now = 0.0

    def follow(self, routes: Iterable[Route], tiers: Mapping[VersionId, Tier]) -> None:
        """Judge the pairs of these routes, and no others."""
        wanted = {pair for route in routes for pair in pairs(route)}
        for gone in self._judges.keys() - wanted:
            del self._judges[gone]
        for pair in wanted - self._judges.keys():
            if (tier := tiers.get(pair.incumbent)) is not None:
                self._judges[pair] = Judge(self._gates(tier), *pair)

    def take(self, second: ArmSecond, told_at: float) -> bool:
        """Give a second to all; True where one of them counted it, or nobody is judged."""
        self._now = max(self._now, told_at)
        took = [judge.take(second, told_at) for judge in self._judges.values()]
        return any(took) or not took

    def judged(self, alias: Alias | None = None) -> tuple[tuple[Pair, Judgement], ...]:
        """Return what is to be said of an alias's pairs, or of all, as of the last second that was told."""
        wanted = [pair for pair in sorted(self._judges) if alias in (None, pair.alias)]
        return tuple((pair, self._judges[pair].judgement(self._now)) for pair in wanted)


def pairs(route: Route) -> tuple[Pair, ...]:
    """Return who is judged beside whom behind an alias."""
    shares = [share for share in route.shares if share.weight > 0]
    if len(shares) < 2:  # noqa: PLR2004  one alone has nobody beside it
        return ()
    incumbent = max(shares, key=lambda share: share.weight).version
    return tuple(Pair(route.alias, incumbent, one.version) for one in shares if one.version != incumbent)
