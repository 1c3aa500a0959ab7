"""A judge for each version that shares an alias: its A/B report is valid at any moment.

The first version with the largest share is the incumbent; each other version with a share is judged against it. When
shares change, judges of pairs that remain are kept, others dropped with their evidence.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.domain.fleet.table import WEIGHT_TOTAL, Route
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.arms import ArmCounts, ArmSecond
from penstock.domain.rollout.judgement import Judgement
from penstock.domain.rollout.rollout import Kind, Rollout
from penstock.judging.gates import Gates
from penstock.judging.judge import Judge


class VersionPair(NamedTuple):
    alias: Alias
    incumbent: VersionId
    candidate: VersionId


class Comparisons:
    def __init__(self, gates: Callable[[Tier], Gates]) -> None:
        self._gates = gates
        self._judges: dict[VersionPair, Judge] = {}
        self._now = 0.0
        self._rolling: dict[Alias, VersionPair] = {}
        self._stages: dict[VersionPair, tuple[str, int]] = {}
        """By a rollout's pair: the rollout and the stage that its judge is of."""

    def follow(self, routes: Iterable[Route], tiers: Mapping[VersionId, Tier]) -> None:
        wanted = {pair for route in routes if route.alias not in self._rolling for pair in pairs(route)}
        wanted.update(self._rolling.values())
        for gone in self._judges.keys() - wanted:
            del self._judges[gone]
        for pair in wanted - self._judges.keys():
            if (tier := tiers.get(pair.incumbent)) is not None:
                self._judges[pair] = Judge(self._gates(tier), *pair)

    def roll(self, rollouts: Iterable[Rollout], tiers: Mapping[VersionId, Tier]) -> None:
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
        judge = self._judges.get(VersionPair(rollout.alias, rollout.incumbent, rollout.candidate))
        if judge is None:
            return None
        judge.has_everything = rollout.weight == WEIGHT_TOTAL
        judge.needs_answers = not rollout.weight and rollout.kind is Kind.EQUIVALENT
        return judge.judgement(self._now)

    def next_stage(self, rollout: Rollout) -> None:
        judge = self._judges.get(VersionPair(rollout.alias, rollout.incumbent, rollout.candidate))
        if judge is not None:
            judge.next_stage()

    def take(self, second: ArmSecond, told_at: float) -> bool:
        """Return False only if all judges dropped this second of evidence."""
        self._now = max(self._now, told_at)
        arms: dict[Alias, list[ArmCounts]] = {}
        for arm in second.arms:
            arms.setdefault(arm.alias, []).append(arm)
        took = [judge.take(second, told_at, arms.get(pair.alias, ())) for pair, judge in self._judges.items()]
        return any(took) or not took

    def catch_up(self) -> Iterator[None]:
        """Catch up one judge at a time, since fifty at once would block the event loop."""
        now = self._now
        for judge in list(self._judges.values()):
            if now:
                judge.follow_clock(now)
            judge.judgement(now)
            yield

    def judged(self, alias: Alias | None = None) -> tuple[tuple[VersionPair, Judgement], ...]:
        wanted = [pair for pair in sorted(self._judges) if alias in (None, pair.alias)]
        return tuple((pair, self._judges[pair].judgement(self._now)) for pair in wanted)


def pairs(route: Route) -> tuple[VersionPair, ...]:
    shares = [share for share in route.shares if share.weight > 0]
    if len(shares) < 2:  # noqa: PLR2004  one version has no other beside it
        return ()
    incumbent = max(shares, key=lambda share: share.weight).version
    return tuple(VersionPair(route.alias, incumbent, one.version) for one in shares if one.version != incumbent)
