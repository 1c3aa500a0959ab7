"""What is left of the evidence of prices without any one tenant, on both sides: nobody alone has a version aborted.

A caller sees which version answers it, and may ask for long answers at the one and for short ones at the other, in
bodies of the same size. Either moves the ranks: its own at the candidate, and with the incumbent's those of everybody
else. So for each tenant the bets go on beside those of all without its answers, among the incumbent's without its
answers. A tenant that comes later had no part in what was before: what goes on without it begins as a copy.
Looked at are those that have most of either side: a candidate with a small share has few answers, so whoever makes most
of them is looked at, however little that is of all traffic.
Trade-off: of more tenants than ``MOST_PURSES`` those with a small part of both sides are not; two that agree still
decide.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from penstock.control.rollout.bets import Bets, Rows
from penstock.control.rollout.cells import Ranks
from penstock.domain.ids import TenantId
from penstock.domain.rollout.arms import ArmCounts, Times

MOST_PURSES = 8
"""Tenants without whom it is judged too: of more, those with the largest parts of the two sides."""
_FADES_S = 60
_CLEARLY = 2.0
"""Whoever has so many times as large a part takes the place of another one: two that are alike would take turns."""
NAMELESS = TenantId("")
PAIRED = (0.0, 0.26, 0.5, 0.74, 1.0)
"""The score of each step of ``dearness``. A little dearer is above what is held, and below what is aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A second's prices by tenant: of both versions' answers, and of copies beside their originals as scores."""

    candidate: Mapping[TenantId, Sequence[Times]] = field(default_factory=dict)
    incumbent: Mapping[TenantId, Sequence[Times]] = field(default_factory=dict)
    copies: Mapping[TenantId, Mapping[float, int]] = field(default_factory=dict)

    def told(self, but: TenantId | None = None) -> dict[float, int]:
        """Return the scores of all copies, or of all but one tenant's."""
        found: dict[float, int] = defaultdict(int)
        for tenant, scores in self.copies.items():
            for score, many in scores.items() if tenant != but else ():
                found[score] += many
        return found

    def answers(self) -> tuple[Counter[TenantId], Counter[TenantId]]:
        """Return how many there are of each tenant at the candidate, copies too, and at the incumbent."""
        mine = Counter({tenant: sum(scores.values()) for tenant, scores in self.copies.items()})
        mine.update(_many(self.candidate))
        return mine, _many(self.incumbent)


NO_PRICES = Prices()


def prices(candidate: Iterable[ArmCounts], incumbent: Iterable[ArmCounts]) -> Prices:
    """Return a second's prices by tenant; those without a name are one tenant's."""
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


def _many(side: Mapping[TenantId, Sequence[Times]]) -> Counter[TenantId]:
    return Counter({who: sum(many for _, counts in times for _, many in counts) for who, times in side.items()})


def _add(scores: dict[float, int], steps: Iterable[tuple[int, int]]) -> None:
    for step, many in steps:
        scores[PAIRED[step]] += many


def _by_tenant(arms: Iterable[ArmCounts]) -> dict[TenantId, list[Times]]:
    found: dict[TenantId, list[Times]] = defaultdict(list)
    for arm in arms:
        left = Counter({(cell, place): many for cell, counts in arm.price for place, many in counts})
        for one in arm.priced:
            left.subtract({(cell, place): many for cell, counts in one.price for place, many in counts})
            found[one.tenant] += one.price
        found[NAMELESS] += [Times(cell, ((place, many),)) for (cell, place), many in left.items() if many > 0]
    return {tenant: times for tenant, times in found.items() if times}


@dataclass(slots=True, kw_only=True)
class _Without:
    """The bets and the incumbent's prices without one tenant."""

    ranks: Ranks
    abort: Bets
    brake: Bets

    @property
    def log_evidence(self) -> float:
        """What is left of both bets without it: the less, the more it had to say."""
        return self.abort.log_evidence + self.brake.log_evidence


class _Parts:
    """What part of each side's answers of late every tenant has."""

    def __init__(self) -> None:
        self._sides: tuple[Counter[TenantId], ...] = (Counter(), Counter())
        self._totals: tuple[int, ...] = (0, 0)
        self._faded_at = 0

    def add(self, at: int, sides: tuple[Counter[TenantId], ...]) -> None:
        """Take a second's answers; what was before fades."""
        if at - self._faded_at >= _FADES_S:
            self._faded_at = at
            self._sides = tuple(Counter({who: n // 2 for who, n in side.items() if n > 1}) for side in self._sides)
        for side, answers in zip(self._sides, sides, strict=True):
            side.update(answers)
        self._totals = tuple(side.total() for side in self._sides)

    def of(self, tenant: TenantId, more: int = 0) -> float:
        """Return a tenant's parts together, as if it had some more answers at each side that has any."""
        sides = zip(self._sides, self._totals, strict=True)
        return sum((side[tenant] + more) / total for side, total in sides if total)


class Purses:
    """The bets of prices without each of the tenants that have the largest parts of either side."""

    def __init__(self, abort: float, brake: float) -> None:
        self._rows = Rows(((abort, False), (brake, False)))
        self._without: dict[TenantId, _Without] = {}
        self._parts = _Parts()

    def slot(self, at: int, before: tuple[Ranks, Bets, Bets], given: Prices, caps: tuple[float, float]) -> None:
        """Take a second's prices; ``before`` are the incumbent's ranks and the bets of all without this second.

        ``caps`` are how many requests a second counts at most, of either bet.
        """
        ranks, abort, brake = before
        if not abort.has_won and not brake.has_won:
            for one in self._without.values():
                one.abort, one.brake = abort.copied(), brake.copied()
        for tenant in self._admitted(at, given.answers()):
            self._without[tenant] = _Without(ranks=ranks.copied(), abort=abort.copied(), brake=brake.copied())
        for tenant, one in self._without.items():
            one.ranks.add(at, _but(given.incumbent, tenant))
            counts, _ = one.ranks.scores(_but(given.candidate, tenant))
            for score, many in given.told(tenant).items():
                counts[score] = counts.get(score, 0) + many
            if counts:
                all_ = sum(counts.values())
                for bets, gains, cap in zip((one.abort, one.brake), self._rows.won(counts), caps, strict=True):
                    bets.take(gains, min(1.0, cap / all_))

    def agree(self, abort: float, brake: float) -> bool:
        """Tell whether without any one of them either bet has these odds (their logs)."""
        without = self._without.values()
        return bool(without) and all(one.abort.reaches(abort) or one.brake.reaches(brake) for one in without)

    def _admitted(self, at: int, sides: tuple[Counter[TenantId], Counter[TenantId]]) -> list[TenantId]:
        """Return who is to be looked at from now on; whoever has a far smaller part gives way.

        All but the one that had most to say: what it said stays in the others' bets, and in those that begin later.
        """
        self._parts.add(at, sides)
        found = list[TenantId]()
        for tenant in dict.fromkeys(chain(*sides)):
            if tenant in self._without:
                continue
            if len(self._without) + len(found) >= MOST_PURSES:
                loudest = min(self._without, key=lambda one: self._without[one].log_evidence, default=None)
                least = min((one for one in self._without if one != loudest), key=self._parts.of, default=None)
                if least is None or self._parts.of(tenant) <= _CLEARLY * self._parts.of(least, more=1):
                    continue
                del self._without[least]
            found.append(tenant)
        return found


def _but(side: Mapping[TenantId, Sequence[Times]], tenant: TenantId) -> list[Times]:
    return [times for who, of in side.items() if who != tenant for times in of]
