"""Error budgets as a listing for people, and as values for programs."""

from collections.abc import Iterator
from dataclasses import asdict

from penstock.slo.budget import SHOWN, Budget
from penstock.slo.budgets import ErrorBudgets
from penstock.slo.policy import BudgetVerdict
from penstock.slo.windows import DAY_S
from penstock.views.elements import Shown, line, listing


def shown(found: ErrorBudgets, verdict: BudgetVerdict) -> Iterator[Shown]:
    columns = ("promise", "left", f"burn {SHOWN[0]}", "spent in")
    rows = [
        (f"{one.tier}.{one.objective} {one.good_ratio:.4g}", _left(one), _burn(one.burns.get(SHOWN[0])), _forecast(one))
        for one in sorted(found.budgets, key=_worst_first)
    ]
    yield listing(f"Error budgets, by {found.source}, over {found.over}", columns, rows)
    yield from map(line, (_rollouts(verdict), *_unheeded(found), *found.notes, *_unserved(found)))


def _worst_first(budget: Budget) -> tuple[bool, float]:
    return budget.left_ratio is None, budget.left_ratio or 0.0


def _rollouts(verdict: BudgetVerdict) -> str:
    because = [f"{one.tier}.{one.objective} ({_why(one)})" for one in verdict.because]
    return f"rollouts: {verdict.pace}{': ' if because else ''}{', '.join(because)}"


def _unheeded(found: ErrorBudgets) -> list[str]:
    says = "rollouts check only availability, by the ledger: the controller has no Prometheus with these rules"
    return [] if found.heeded else [says]


def _left(budget: Budget) -> str:
    left = budget.left_ratio
    if left is None:
        return _too_few(budget) if budget.is_few else "-"
    if left >= 0:
        return f"{left:.1%}"
    return f"overspent {-left:.3g} times" if left <= -1 else f"overspent by {-left:.0%}"


def _too_few(budget: Budget) -> str:
    return f"few: {budget.seen.bad:.0f} bad of {budget.seen.events:.0f}" if budget.seen else "too few"


def _few(budget: Budget) -> str:
    seen = budget.seen
    return f"too few events to judge: {seen.bad:.0f} bad of {seen.events:.0f}" if seen else "too few events to judge"


def _why(budget: Budget) -> str:
    if budget.left_ratio is None:
        return _few(budget) if budget.is_few else "unknown"
    return f"{_left(budget)} left" if budget.left_ratio >= 0 else _left(budget)


def _unserved(found: ErrorBudgets) -> list[str]:
    return [f"not served, so not measured: {', '.join(found.unserved)}"] if found.unserved else []


def _burn(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _forecast(budget: Budget) -> str:
    seconds = budget.spent_in_s
    if seconds is None:
        return "-"
    return f"{seconds / DAY_S:.1f} days" if seconds else "spent"


def plain(found: ErrorBudgets, verdict: BudgetVerdict) -> dict[str, object]:
    return {
        "source": found.source,
        "over": found.over,
        "notes": list(found.notes),
        "unserved": list(found.unserved),
        "budgets": [{**asdict(one), "spent_in_s": one.spent_in_s} for one in found.budgets],
        "rollouts": {
            "pace": verdict.pace,
            "heeds": "all" if found.heeded else "availability",
            "because": [{"tier": one.tier, "objective": one.objective} for one in verdict.because],
        },
    }
