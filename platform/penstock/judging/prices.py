"""A second's prices by tenant: of both versions' answers, and of shadow copies relative to their originals. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.domain.ids import TenantId
from penstock.domain.rollout.arms import ArmCounts, Times

NAMELESS = TenantId("")
PAIRED = (0.0, 0.26, 0.5, 0.74, 1.0)
"""The score of each step of ``dearness``. Slightly dearer is above the hold tolerance, and below the abort
tolerance.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    candidate: Mapping[TenantId, Sequence[Times]] = field(default_factory=dict)
    incumbent: Mapping[TenantId, Sequence[Times]] = field(default_factory=dict)
    copies: Mapping[TenantId, Mapping[float, int]] = field(default_factory=dict)

    def told(self, but: TenantId | None = None) -> dict[float, int]:
        found: dict[float, int] = defaultdict(int)
        for tenant, scores in self.copies.items():
            for score, many in scores.items() if tenant != but else ():
                found[score] += many
        return found

    def answers(self) -> tuple[Counter[TenantId], Counter[TenantId]]:
        mine = Counter({tenant: sum(scores.values()) for tenant, scores in self.copies.items()})
        mine.update(_many(self.candidate))
        return mine, _many(self.incumbent)


NO_PRICES = Prices()


def prices(candidate: Iterable[ArmCounts], incumbent: Iterable[ArmCounts]) -> Prices:
    mine = tuple(candidate)
    copies: dict[TenantId, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for arm in mine:
        left = Counter(dict(arm.paired))
        for one in arm.priced:
            left.subtract(dict(one.paired))
            _add(copies[one.tenant], one.paired)
        _add(copies[NAMELESS], ((step, many) for step, many in left.items() if many > 0))
    known = {tenant: scores for tenant, scores in copies.items() if scores}
    return Prices(candidate=_by_tenant(mine), incumbent=_by_tenant(incumbent), copies=known)


def _many(by_tenant: Mapping[TenantId, Sequence[Times]]) -> Counter[TenantId]:
    return Counter({who: sum(many for _, counts in times for _, many in counts) for who, times in by_tenant.items()})


def _add(scores: dict[float, int], steps: Iterable[tuple[int, int]]) -> None:
    for step, many in steps:
        scores[PAIRED[step]] += many


def _by_tenant(arms: Iterable[ArmCounts]) -> dict[TenantId, list[Times]]:
    found: dict[TenantId, list[Times]] = defaultdict(list)
    for arm in arms:
        left = Counter({(stratum, place): many for stratum, counts in arm.price for place, many in counts})
        for one in arm.priced:
            left.subtract({(stratum, place): many for stratum, counts in one.price for place, many in counts})
            found[one.tenant] += one.price
        found[NAMELESS] += [Times(stratum, ((place, many),)) for (stratum, place), many in left.items() if many > 0]
    return {tenant: times for tenant, times in found.items() if times}
