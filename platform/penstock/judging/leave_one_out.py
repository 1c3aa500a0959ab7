"""Leave-one-tenant-out evidence: no single tenant can have a version aborted.

A caller sees the version that answers, and may send the candidate alone requests that end badly or answer long. So for
each tenant an e-process runs without that tenant's requests, and an abort needs the evidence of every one. Trade-off:
only a tenant's bad events are left out, which favours the candidate; two cooperating tenants can still decide.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from penstock.domain.ids import TenantId
from penstock.domain.rollout.arms import Times
from penstock.judging.e_process import EProcess, GainTable
from penstock.judging.prices import Prices
from penstock.judging.strata import Ranks

MOST_BLAMED = 16
"""Tenants with bad events that are left out one at a time; beyond that, those with the least influence are dropped."""
MOST_PRICED = 8
"""Tenants whose prices are left out one at a time: those with the largest parts of either version's."""
_FADES_S = 60
_CLEARLY = 2.0
"""A tenant replaces another if its part is larger by this factor, so that two similar ones do not alternate."""


class EventLeaveOneOut:
    """E-processes by tenant with bad events; each starts as a copy of the one with all tenants."""

    def __init__(self) -> None:
        self._without: dict[TenantId, EProcess] = {}

    def observe(self, before: EProcess, so: Mapping[TenantId, int], all_: int, mean: float, cap: float) -> None:
        if not before.has_gained:
            self._without.clear()
        for tenant in so:
            if tenant not in self._without:
                self._without[tenant] = before.copy()
        bad = sum(so.values())
        for tenant, bets in self._without.items():
            bets.observe({1.0: bad - so.get(tenant, 0), 0.0: all_ - bad}, mean, cap)
        while len(self._without) > MOST_BLAMED:
            del self._without[max(self._without, key=lambda one: self._without[one].log_wealth)]

    def holds_without_any(self, log_odds: float) -> bool:
        return bool(self._without) and all(bets.reaches(log_odds) for bets in self._without.values())


@dataclass(slots=True, kw_only=True)
class _Without:
    ranks: Ranks
    abort: EProcess
    brake: EProcess

    @property
    def log_wealth(self) -> float:
        return self.abort.log_wealth + self.brake.log_wealth


class _Parts:
    def __init__(self) -> None:
        self._answers: tuple[Counter[TenantId], ...] = (Counter(), Counter())
        self._totals: tuple[int, ...] = (0, 0)
        self._faded_at = 0

    def add(self, at: int, answers: tuple[Counter[TenantId], ...]) -> None:
        if at - self._faded_at >= _FADES_S:
            self._faded_at = at
            self._answers = tuple(Counter({who: n // 2 for who, n in one.items() if n > 1}) for one in self._answers)
        for known, new in zip(self._answers, answers, strict=True):
            known.update(new)
        self._totals = tuple(one.total() for one in self._answers)

    def of(self, tenant: TenantId, more: int = 0) -> float:
        answers = zip(self._answers, self._totals, strict=True)
        return sum((one[tenant] + more) / total for one, total in answers if total)


class PriceLeaveOneOut:
    def __init__(self, abort: float, brake: float) -> None:
        self._gains = GainTable(((abort, False), (brake, False)))
        self._without: dict[TenantId, _Without] = {}
        self._parts = _Parts()

    def observe(
        self, at: int, before: tuple[Ranks, EProcess, EProcess], given: Prices, caps: tuple[float, float]
    ) -> None:
        ranks, abort, brake = before
        if not abort.has_gained and not brake.has_gained:
            for one in self._without.values():
                one.abort, one.brake = abort.copy(), brake.copy()
        for tenant in self._admitted(at, given.answers()):
            self._without[tenant] = _Without(ranks=ranks.copy(), abort=abort.copy(), brake=brake.copy())
        for tenant, one in self._without.items():
            one.ranks.add(at, _but(given.incumbent, tenant))
            counts, _ = one.ranks.scores(_but(given.candidate, tenant))
            for score, many in given.told(tenant).items():
                counts[score] = counts.get(score, 0) + many
            if counts:
                all_ = sum(counts.values())
                for bets, gains, cap in zip((one.abort, one.brake), self._gains.gains(counts), caps, strict=True):
                    bets.add(gains, min(1.0, cap / all_))

    def holds_without_any(self, abort: float, brake: float) -> bool:
        without = self._without.values()
        return bool(without) and all(one.abort.reaches(abort) or one.brake.reaches(brake) for one in without)

    def _admitted(self, at: int, answers: tuple[Counter[TenantId], Counter[TenantId]]) -> list[TenantId]:
        """Replace a tenant with far fewer answers, never the one that the evidence needs most."""
        self._parts.add(at, answers)
        found = list[TenantId]()
        for tenant in dict.fromkeys(chain(*answers)):
            if tenant in self._without:
                continue
            if len(self._without) + len(found) >= MOST_PRICED:
                loudest = min(self._without, key=lambda one: self._without[one].log_wealth, default=None)
                least = min((one for one in self._without if one != loudest), key=self._parts.of, default=None)
                if least is None or self._parts.of(tenant) <= _CLEARLY * self._parts.of(least, more=1):
                    continue
                del self._without[least]
            found.append(tenant)
        return found


def _but(one: Mapping[TenantId, Sequence[Times]], tenant: TenantId) -> list[Times]:
    return [times for who, of in one.items() if who != tenant for times in of]
