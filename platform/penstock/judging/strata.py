"""A request's rank among similar recent requests of the incumbent.

An idle candidate looks fast, and a tenant with long prompts makes its version look slow. So requests are compared
within strata of prompt length and of concurrent requests: with the incumbent's last minute, or in a thin stratum with
its last few of ten minutes.

Trade-off: a request without comparable ones is no evidence.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from penstock.domain.rollout.arms import BUCKETS, Stratum, Times

SPAN_S, MOST_S = 60, 600
DIGITS = 2
"""Digits of a rank: a hundredth is far below any tolerance, and few different scores are quick to judge."""
LEAST = 20
"""The least requests of the incumbent in a stratum for a meaningful rank."""
FORGIVEN = 1
"""Buckets of time that a candidate may be slower: a tenth."""
LEAST_BESIDE = 5
"""The same for an adjacent stratum."""
_SWEEP_S = 60
_NO_STRATUM = 2
"""A stratum that never occurs: one running request is stratum 1, two are stratum 3."""

Counts = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _StratumSample:
    buckets: list[int]
    many: int = 0
    slots: deque[tuple[int, Counts, int]] = field(default_factory=deque)

    def add(self, at: int, counts: Counts) -> None:
        many, buckets = 0, self.buckets
        for bucket, count in counts:
            buckets[bucket] += count
            many += count
        self.slots.append((at, counts, many))
        self.many += many

    def copy(self) -> "_StratumSample":
        return _StratumSample(list(self.buckets), self.many, deque(self.slots))

    def forget(self, now: int) -> None:
        """Requests older than a minute while enough newer ones remain, and those past the age limit in any case."""
        while self.slots:
            at, counts, many = self.slots[0]
            if at > now - SPAN_S or (at > now - MOST_S and self.many - many < LEAST):
                return
            self.slots.popleft()
            for bucket, count in counts:
                self.buckets[bucket] -= count
            self.many -= many

    def rank(self, bucket: int) -> float:
        """The part below this bucket plus half of the part in it; two pseudo-counts moderate small samples."""
        return (sum(self.buckets[:bucket]) + 0.5 * self.buckets[bucket] + 1.0) / (self.many + 2.0)


_Comparators = list[tuple[_StratumSample, float]]
"""The strata that a request is compared with, and their weights."""


class Ranks:
    def __init__(self, buckets: int = BUCKETS) -> None:
        self._buckets = buckets
        self._strata: dict[Stratum, _StratumSample] = {}
        self._now = self._swept_at = 0

    def copy(self) -> "Ranks":
        found = Ranks(self._buckets)
        found._strata = {stratum: known.copy() for stratum, known in self._strata.items()}
        found._now, found._swept_at = self._now, self._swept_at
        return found

    def add(self, at: int, times: Iterable[Times]) -> None:
        self._now = at
        for stratum, counts in times:
            known = self._strata.get(stratum)
            if known is None:
                known = self._strata[stratum] = _StratumSample([0] * self._buckets)
            known.add(at, counts)
        if at - self._swept_at >= _SWEEP_S:
            self._swept_at = at
            self._sweep()

    def scores(self, times: Iterable[Times], forgiven: int = 0) -> tuple[dict[float, int], int]:
        """Return scores in [0, 1], and the number of requests without comparable ones.

        ``forgiven`` buckets are subtracted from ``times``, so that a negligible difference does not change the rank if
        times vary little.
        """
        (found,), unmatched = self.scores_by(times, (forgiven,))
        return found, unmatched

    def scores_by(self, times: Iterable[Times], forgiven: tuple[int, ...]) -> tuple[list[dict[float, int]], int]:
        found: list[dict[float, int]] = [{} for _ in forgiven]
        by_stratum: dict[Stratum, tuple[_Comparators, dict[int, float]]] = {}
        unmatched = 0
        for stratum, counts in times:
            known = by_stratum.get(stratum)
            if known is None:
                known = by_stratum[stratum] = (self._comparators(stratum), {})
            comparators, ranks = known
            if not comparators:
                unmatched += sum([count for _, count in counts])
                continue
            for counted, less in zip(found, forgiven, strict=True):
                for bucket, count in counts:
                    place = bucket - less if bucket > less else 0
                    rank = ranks.get(place)
                    if rank is None:
                        rank = ranks[place] = _rank(comparators, place)
                    counted[rank] = counted.get(rank, 0) + count
        return found, unmatched

    def _comparators(self, stratum: Stratum) -> _Comparators:
        own = self._known(stratum)
        comparators = [(own, float(own.many))] if own is not None else []
        if own is not None and own.many >= LEAST:
            return comparators
        for pair in _opposite(stratum):
            one, other = (self._known(beside) for beside in pair)
            if one is not None and other is not None and (least := min(one.many, other.many)) >= LEAST_BESIDE:
                comparators += [(one, float(least)), (other, float(least))]
        return comparators if sum([weight for _, weight in comparators]) >= LEAST else []

    def _known(self, stratum: Stratum) -> _StratumSample | None:
        known = self._strata.get(stratum)
        if known is not None:
            known.forget(self._now)
        return known

    def _sweep(self) -> None:
        for stratum, known in list(self._strata.items()):
            known.forget(self._now)
            if not known.slots:
                del self._strata[stratum]


def _rank(comparators: _Comparators, place: int) -> float:
    ranks = weights = 0.0
    for known, weight in comparators:
        ranks += known.rank(place) * weight
        weights += weight
    return round(ranks / weights, DIGITS)


@lru_cache(maxsize=1 << 12)
def _opposite(stratum: Stratum) -> tuple[tuple[Stratum, Stratum], tuple[Stratum, Stratum]]:
    prompt, running = stratum
    fewer, more = running - (2 if running == _NO_STRATUM + 1 else 1), running + (2 if running == _NO_STRATUM - 1 else 1)
    return (Stratum(prompt, fewer), Stratum(prompt, more)), (Stratum(prompt - 1, running), Stratum(prompt + 1, running))
