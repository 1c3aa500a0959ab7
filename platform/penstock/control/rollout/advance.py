"""The rollouts' part of a tick: from judgements, workers and budgets to the next states and their routes.

It runs before fleet and table, so that a verdict is in the table that the tick publishes. If a person changes a rollout
meanwhile, that change wins, and the next tick evaluates again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.control.rollout import steps
from penstock.control.rollout.rollouts import BudgetSpent, Replicas, RolloutStore
from penstock.control.rollout.shown import RolloutMetrics
from penstock.domain.errors import Conflict
from penstock.domain.fleet.decision import Decision
from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.fleet.versions import Catalogue, Seen
from penstock.domain.fleet.worker import WorkerReport
from penstock.domain.ids import VersionId
from penstock.domain.models.adapter import bases_of
from penstock.domain.models.model import Tier
from penstock.domain.rollout.judgement import Judgement
from penstock.domain.rollout.rollout import Rollout, State, Stored
from penstock.domain.tenancy.audit import Act
from penstock.telemetry.logs import logger

_SIGNALS = {"freeze": "error_budget", "resume": "error_budget", "done": "watch", "grow": "workers"}
"""The signal by kind of decision; the judgement for all others."""
_OBJECTIVE = "a candidate goes on by proof alone, and evidence against it holds or aborts it"


class Judges(Protocol):
    def roll(self, rollouts: Sequence[Rollout], tiers: Mapping[VersionId, Tier]) -> None: ...

    def judgement(self, rollout: Rollout) -> Judgement | None: ...

    def next_stage(self, rollout: Rollout) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Now:
    at: float
    tiers: Mapping[VersionId, Tier]
    reports: tuple[WorkerReport, ...]
    """Of the serving workers."""
    deployed: Mapping[VersionId, int]
    bases: Mapping[VersionId, VersionId]
    """Bases of adapters."""

    def serving(self, version: VersionId) -> list[WorkerReport]:
        return [one for one in self.reports if one.version == self.bases.get(version, version)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    store: RolloutStore
    judges: Judges
    replicas: Replicas
    budget_spent: BudgetSpent
    shown: RolloutMetrics
    _moving: dict[VersionId, VersionId] = field(default_factory=dict)

    async def advance(self, catalogue: Catalogue, seen: Sequence[Seen], now: float) -> tuple[Decision, ...]:
        live = await self.store.live()
        self._moving.clear()
        self._moving.update((one.rollout.incumbent, one.rollout.candidate) for one in live)
        known = _Now(
            at=now,
            tiers={one.id: one.manifest.tier for one in catalogue.versions},
            reports=tuple(one.report for one in seen if one.report.state.serves),
            deployed={one.version: one.replicas for one in catalogue.deployments},
            bases=bases_of(catalogue.versions),
        )
        self.judges.roll([one.rollout for one in live], known.tiers)
        await self._show([one.rollout for one in live])
        decided = [await self._one(one, known) for one in live]
        return tuple(one for one in decided if one is not None)

    def moving(self) -> Mapping[VersionId, VersionId]:
        return dict(self._moving)

    def unknown(self) -> None:
        self.shown.unknown()

    async def _show(self, live: Sequence[Rollout]) -> None:
        for gone in self.shown.show(live, {one.id: self.judges.judgement(one) for one in live}):
            if (stored := await self.store.one(gone)) is not None:
                self.shown.ended(stored.rollout)

    async def _one(self, stored: Stored, known: _Now) -> Decision | None:
        rollout = stored.rollout
        tier, incumbents = known.tiers.get(rollout.incumbent), known.serving(rollout.incumbent)
        what = steps.StepInputs(
            judgement=self.judges.judgement(rollout),
            ready=len(known.serving(rollout.candidate)),
            needed=needed(rollout, len(incumbents)),
            unfetched=sum(rollout.candidate not in one.cached for one in incumbents),
            budget_spent=tier is not None and await self.budget_spent(tier, known.tiers),
        )
        taken = steps.step(rollout, what, known.at, stored.number + 1)
        if taken is None:
            return await self._grow(rollout, what, known)
        change, word = taken.change, _word(rollout, taken.rollout)
        act = _act(f"rollout.{word}", rollout, known.at, change.says)
        try:
            await self.store.go_on(taken, act)
        except Conflict:  # a person was first
            return None
        if taken.rollout.stage != rollout.stage:
            self.judges.next_stage(taken.rollout)
        logger().info("rollout_changed", object=rollout.id, state=change.state, reason=change.says)
        verdict = "" if change.judgement is None else f"{change.judgement.verdict}: "
        return _decision(word, rollout, f"{verdict}{change.says}")

    async def _grow(self, rollout: Rollout, what: steps.StepInputs, known: _Now) -> Decision | None:
        """Workers for a proven candidate's next share; an adapter's base has them."""
        if rollout.candidate in known.bases:
            return None
        has = known.deployed.get(rollout.candidate, 0)
        if not steps.wants_workers(rollout, what, known.at) or what.needed <= has:
            return None
        says = f"{what.needed} workers for the next share, {has} before{steps.without_files(what)}"
        act = _act("rollout.grow", rollout, known.at, says, target=rollout.candidate)
        try:
            await self.replicas.put_replicas(rollout.candidate, what.needed, act)
        except Conflict:  # they would not fit: without them its share does not grow, and its patience ends
            return None
        logger().info("rollout_changed", object=rollout.id, state=rollout.state, reason=says)
        return _decision("grow", rollout, says)


def needed(rollout: Rollout, incumbents: int) -> int:
    following = rollout.stages[min(rollout.stage + 1, len(rollout.stages) - 1)]
    return max(1, math.ceil(incumbents * following.weight / WEIGHT_TOTAL))


def _act(what: str, rollout: Rollout, at: float, says: str, *, target: str = "") -> Act:
    return Act(who="platform", what=what, target=target or rollout.id, at=at, detail=f"{rollout.alias}: {says}")


def _decision(word: str, rollout: Rollout, says: str) -> Decision:
    return Decision(
        what=f"rollout.{word}",
        target=rollout.alias,
        signal=_SIGNALS.get(word, "judgement"),
        value=f"{rollout.id}, {rollout.candidate}: {says}",
        objective=_OBJECTIVE,
    )


def _word(before: Rollout, after: Rollout) -> str:
    if after.stage != before.stage:
        return "promote"
    if after.proposes is not before.proposes:
        return "propose"
    words = {State.HELD: "hold", State.FROZEN: "freeze", State.ABORTED: "abort", State.DONE: "done"}
    return words.get(after.state, "resume")
