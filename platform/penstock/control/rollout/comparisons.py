"""A judge for each version that shares an alias with another one: A/B reports that may be read at any moment.

The version with the largest share is the incumbent, the first of them where several have it; each other version with a
share is judged against it. Where a rollout runs, it says who is who, whatever the shares. A change of shares keeps the
judges of the pairs that stay; of the others' evidence nothing is left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.control.rollout.gates import Gates
from penstock.control.rollout.judge import Judge
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.arms import ArmCounts, ArmSecond
from penstock.domain.rollout.judgement import Judgement
from penstock.domain.rollout.rollout import Kind, Rollout


class VersionPair(NamedTuple):
    """A candidate beside its incumbent."""

    alias: Alias
    incumbent: VersionId
    candidate: VersionId


class Comparisons:
    """The judges of now."""

    def __init__(self, gates: Callable[[Tier], Gates]) -> None:
        self._gates = gates
        self._judges: dict[VersionPair, Judge] = {}
        self._now = 0.0
        self._rolling: dict[Alias, VersionPair] = {}
        self._stages: dict[VersionPair, tuple[str, int]] = {}
        """Of the pairs of rollouts: whose judge it is, and at which stage."""

    def follow(self, routes: Iterable[Route], tiers: Mapping[VersionId, Tier]) -> None:
        """Judge the pairs of these routes, and no others."""
        wanted = {pair for route in routes if route.alias not in self._rolling for pair in pairs(route)}
        wanted.update(self._rolling.values())
        for gone in self._judges.keys() - wanted:
            del self._judges[gone]
        for pair in wanted - self._judges.keys():
            if (tier := tiers.get(pair.incumbent)) is not None:
                self._judges[pair] = Judge(self._gates(tier), *pair)

    def roll(self, rollouts: Iterable[Rollout], tiers: Mapping[VersionId, Tier]) -> None:
        """Judge the candidates of these rollouts, and of no others.

        A rollout begins without evidence, though the same pair was judged before; each of its stages, a person's
        promotion too, asks for a new proof.
        """
        live = {VersionPair(one.alias, one.incumbent, one.candidate): one for one in rollouts}
        self._rolling = {pair.alias: pair for pair in live}
        for pair, rollout in live.items():
            judged, now = self._stages.get(pair), (rollout.id, rollout.stage)
            if pair in self._judges and judged is not None and judged[0] == rollout.id:
                if judged != now:
                    self._judges[pair].next_stage()
            elif (tier := tiers.get(pair.incumbent)) is not None:
                self._judges[pair] = Judge(self._gates(tier), *pair, since=rollout.since)
        self._stages = {pair: (one.id, one.stage) for pair, one in live.items()}

    def judgement(self, rollout: Rollout) -> Judgement | None:
        """Return what is to be said of a rollout's candidate now; None where nobody judges it."""
        judge = self._judges.get(VersionPair(rollout.alias, rollout.incumbent, rollout.candidate))
        if judge is None:
            return None
        judge.alone = rollout.weight == WEIGHT_TOTAL
        judge.scores = not rollout.weight and rollout.kind is Kind.EQUIVALENT
        return judge.judgement(self._now)

    def next_stage(self, rollout: Rollout) -> None:
        """Ask for new proofs: the rollout has come to another share."""
        judge = self._judges.get(VersionPair(rollout.alias, rollout.incumbent, rollout.candidate))
        if judge is not None:
            judge.next_stage()

    def take(self, second: ArmSecond, told_at: float) -> bool:
        """Give a second to all; True where one of them counted it, or nobody is judged."""
        self._now = max(self._now, told_at)
        arms: dict[Alias, list[ArmCounts]] = {}
        for arm in second.arms:
            arms.setdefault(arm.alias, []).append(arm)
        took = [judge.take(second, told_at, arms.get(pair.alias, ())) for pair, judge in self._judges.items()]
        return any(took) or not took

    def catch_up(self) -> Iterator[None]:
        """Let the judges take in what has come, one at a time: fifty in one go would hold everybody else up."""
        now = self._now
        for judge in list(self._judges.values()):
            if now:
                judge.follow_clock(now)
            judge.judgement(now)
            yield

    def judged(self, alias: Alias | None = None) -> tuple[tuple[VersionPair, Judgement], ...]:
        """Return what is to be said of an alias's pairs, or of all, as of the last second that was told."""
        wanted = [pair for pair in sorted(self._judges) if alias in (None, pair.alias)]
        return tuple((pair, self._judges[pair].judgement(self._now)) for pair in wanted)


def pairs(route: Route) -> tuple[VersionPair, ...]:
    """Return who is judged beside whom behind an alias."""
    shares = [share for share in route.shares if share.weight > 0]
    if len(shares) < 2:  # noqa: PLR2004  one alone has nobody beside it
        return ()
    incumbent = max(shares, key=lambda share: share.weight).version
    return tuple(VersionPair(route.alias, incumbent, one.version) for one in shares if one.version != incumbent)
