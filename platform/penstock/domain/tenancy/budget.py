"""Budgets: limits on spend per calendar day or month (UTC), and the spend so far.

A request counts in the window of its opening, also if it ends in the next one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from penstock.domain.clock import DAY_S
from penstock.domain.ids import OrgId, TenantId
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.ledger import LedgerReader, Span, Spent
from penstock.domain.tenancy.tenant import KeyRing, Scope, ScopeId, ScopeKind


class Period(StrEnum):
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A day or month: its name (``2026-11-21``, ``2026-11``) and its seconds."""

    period: Period
    name: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    scope: str
    window: Window
    cap: MicroUsd

    @property
    def meter(self) -> str:
        return f"{self.scope}:spend:{self.window.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    budget: Budget
    spent: MicroUsd

    @property
    def used_ratio(self) -> float:
        return self.spent / self.budget.cap


def day(now: float) -> Window:
    return _day(int(now // DAY_S))


def month(now: float) -> Window:
    return _month(int(now // DAY_S))


@lru_cache(maxsize=8)  # every request with a budget asks for today's
def _day(number: int) -> Window:
    begin = datetime.fromtimestamp(number * DAY_S, UTC)
    return _window(Period.DAY, f"{begin:%Y-%m-%d}", begin, begin + timedelta(days=1))


@lru_cache(maxsize=8)
def _month(day_number: int) -> Window:
    begin = datetime.fromtimestamp(day_number * DAY_S, UTC).replace(day=1)
    return _window(Period.MONTH, f"{begin:%Y-%m}", begin, (begin + timedelta(days=32)).replace(day=1))


def _window(period: Period, name: str, begin: datetime, end: datetime) -> Window:
    return Window(period=period, name=name, span=Span(begin=begin.timestamp(), end=end.timestamp()))


def budgets(scopes: Iterable[Scope], now: float) -> tuple[Budget, ...]:
    """A limit of zero makes no budget."""
    today, this_month = day(now), month(now)
    return tuple(
        Budget(scope=scope.name, window=window, cap=cap)
        for scope in scopes
        for window, cap in ((today, scope.plan.spend_per_day), (this_month, scope.plan.spend_per_month))
        if cap
    )


def sums(spent: Iterable[Spent], orgs: Mapping[TenantId, OrgId]) -> Mapping[str, MicroUsd]:
    found: Counter[str] = Counter()
    for line in spent:
        found[str(ScopeId(kind=ScopeKind.KEY, id=line.key))] += line.cost
        found[str(ScopeId(kind=ScopeKind.TENANT, id=line.tenant))] += line.cost
        if line.tenant in orgs:
            found[str(ScopeId(kind=ScopeKind.ORG, id=orgs[line.tenant]))] += line.cost
    return {name: MicroUsd(cost) for name, cost in found.items()}


async def read(reader: LedgerReader, ring: KeyRing, now: float) -> tuple[BudgetLine, ...]:
    wanted = budgets(ring.scopes(), now)
    orgs = {tenant.id: tenant.org for tenant in ring.tenants}
    by_window = {
        period: sums(await reader.spent_in(period), orgs) for period in {budget.window.name for budget in wanted}
    }
    return tuple(BudgetLine(budget=one, spent=by_window[one.window.name].get(one.scope, MicroUsd(0))) for one in wanted)
