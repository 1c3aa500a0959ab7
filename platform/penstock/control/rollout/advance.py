"""Takes the rollouts on, a tick at a time: judgement, workers and budget in, the next state and its route out.

It is made for the leader's tick, before fleet and table: a verdict is then in the very table that the tick publishes.
A change that a person made at the same moment wins, and this one is dropped: the next tick looks again. A store that is
away ends the tick, as it ends everything that would be published; gateways keep the last table meanwhile.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.control.rollout import steps
from penstock.control.rollout.ports import RolloutStore
from penstock.domain.audit import Act
from penstock.domain.errors import Conflict
from penstock.domain.fleet import Catalogue, Seen
from penstock.domain.ids import VersionId
from penstock.domain.judgement import Judgement
from penstock.domain.model import Tier
from penstock.domain.rollout import Rollout, State, Stored
from penstock.domain.table import WEIGHT_TOTAL
from penstock.telemetry.logs import logger


class Judges(Protocol):
    """Who judges the candidates."""

    def roll(self, rollouts: Sequence[Rollout], tiers: Mapping[VersionId, Tier]) -> None:
        """Judge the candidates of these rollouts."""
        ...

    def judgement(self, rollout: Rollout) -> Judgement | None:
        """Return what is to be said now; None where nobody judges it."""
        ...

    def next_stage(self, rollout: Rollout) -> None:
        """Ask for new proofs."""
        ...


BudgetSpent = Callable[[Tier, Mapping[VersionId, Tier]], Awaitable[bool]]
"""Whether a tier's error budget is spent, by the ends of its versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The stage between registry and fleet."""

    store: RolloutStore
    judges: Judges
    budget_spent: BudgetSpent

    async def advance(self, catalogue: Catalogue, seen: Sequence[Seen], now: float) -> bool:
        """Take each live rollout on (Unix seconds); True where a route has changed."""
        live = await self.store.live()
        tiers = {one.id: one.manifest.tier for one in catalogue.versions}
        self.judges.roll([one.rollout for one in live], tiers)
        changed = [await self._one(one, tiers, seen, now) for one in live]
        return any(changed)

    async def _one(self, stored: Stored, tiers: Mapping[VersionId, Tier], seen: Sequence[Seen], now: float) -> bool:
        rollout = stored.rollout
        tier = tiers.get(rollout.incumbent)
        what = steps.Seen(
            judgement=self.judges.judgement(rollout),
            ready=_ready(rollout.candidate, seen),
            needed=needed(rollout, _ready(rollout.incumbent, seen)),
            budget_spent=tier is not None and await self.budget_spent(tier, tiers),
        )
        taken = steps.step(rollout, what, now, stored.number + 1)
        if taken is None:
            return False
        change = taken.change
        act = Act(
            who="platform",
            what=f"rollout.{_word(rollout, taken.rollout)}",
            target=rollout.id,
            at=now,
            detail=change.says,
        )
        try:
            await self.store.go_on(taken, act)
        except Conflict:  # a person was first
            return False
        if taken.rollout.stage != rollout.stage:
            self.judges.next_stage(taken.rollout)
        logger().info("rollout_changed", object=rollout.id, state=change.state, reason=change.says)
        return True


def needed(rollout: Rollout, incumbents: int) -> int:
    """Return how many workers the candidate needs for its next share, by what serves the whole of it today."""
    following = rollout.stages[min(rollout.stage + 1, len(rollout.stages) - 1)]
    return max(1, math.ceil(incumbents * following.weight / WEIGHT_TOTAL))


def _ready(version: VersionId, seen: Sequence[Seen]) -> int:
    return sum(one.report.version == version and one.report.state.serves for one in seen)


def _word(before: Rollout, after: Rollout) -> str:
    """Return what happened, as the audit log names it."""
    if after.stage != before.stage:
        return "promote"
    words = {State.HELD: "hold", State.FROZEN: "freeze", State.ABORTED: "abort", State.DONE: "done"}
    return words.get(after.state, "propose" if after.proposed and not before.proposed else "resume")
