"""The pace of rollouts that error budgets allow: the policy of ``slo/budget_policy.yaml``.

The worst objective decides. A budget with an unknown rest is neither full nor spent: the policy gives its pace.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.serving.spec import SpecReader
from penstock.slo.budget import Budget


class RolloutPace(StrEnum):
    FREE = "free"
    SLOW = "slow"
    """One step at a time, each watched to its end."""
    FROZEN = "frozen"
    """None, except what an operator forces to win the budget back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Budget shares at and below which rollouts freeze or slow down, and the pace without data."""

    freeze_at: float
    slow_at: float
    without_data: RolloutPace


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetVerdict:
    pace: RolloutPace
    because: tuple[Budget, ...] = ()


def judge(policy: Policy, budgets: Iterable[Budget]) -> BudgetVerdict:
    paces = [(_pace(policy, budget), budget) for budget in budgets]
    if not paces:
        return BudgetVerdict(pace=policy.without_data)
    worst = max((pace for pace, _ in paces), key=list(RolloutPace).index)
    because = tuple(budget for pace, budget in paces if pace is worst) if worst is not RolloutPace.FREE else ()
    return BudgetVerdict(pace=worst, because=because)


def parse(raw: object, source: str) -> Policy:
    """Return the policy, or raise ``SpecRefused``; ``source`` names it in messages."""
    spec = SpecReader(source, "", raw)
    spec.only(("freeze_at", "slow_at", "without_data"))
    freeze, slow = (
        spec.number(key, lambda n: 0 <= n <= 1, "a share of a budget, 0 to 1") for key in ("freeze_at", "slow_at")
    )
    if slow < freeze:
        raise spec.wrong("slow_at", f"{slow:g} must not be below freeze_at, {freeze:g}")
    return Policy(freeze_at=freeze, slow_at=slow, without_data=spec.choice("without_data", RolloutPace))


def _pace(policy: Policy, budget: Budget) -> RolloutPace:
    if budget.left_ratio is None:
        return policy.without_data
    if budget.left_ratio <= policy.freeze_at:
        return RolloutPace.FROZEN
    return RolloutPace.SLOW if budget.left_ratio <= policy.slow_at else RolloutPace.FREE
