"""Budgets and spend, usage, the ledger, and the reconciliation of meters; tenants see their own."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from penstock.control.api import plans
from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import Caps
from penstock.control.api.deps import Control, Controlled, Operator, Reader, Second
from penstock.control.api.wire import Sent
from penstock.control.budgets.watch import BudgetComparison, compare, correct
from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.ids import TenantId
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy import budget
from penstock.domain.tenancy.budget import BudgetLine
from penstock.domain.tenancy.ledger import Cursor, LedgerRow, Span, UsageLine
from penstock.domain.tenancy.tenant import JUDGES, SHADOWS, Plan, ScopeId, ScopeKind

MAX_ROWS = 5000
CSV = "text/csv; charset=utf-8"
NEXT = "x-penstock-next"
"""The header that carries a CSV page's cursor."""
COLUMNS = tuple(field.name for field in fields(LedgerRow))
_OR_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
router = APIRouter(tags=["money"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetShown:
    """A budget: money in micro-dollars, ``used_ratio`` 1.0 and more means used up; ``ends_at`` is Unix seconds."""

    scope: str
    period: str
    window: str
    cap: MicroUsd
    spent: MicroUsd
    used_ratio: float
    ends_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetList:
    """Budgets in force, the fullest first."""

    budgets: tuple[BudgetShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedShown:
    """A budget's meter and its spend by the ledger, in micro-dollars."""

    scope: str
    window: str
    ledger: MicroUsd
    counted: MicroUsd
    difference: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """Meters compared with the ledger; ``shared`` is false if each gateway has meters of its own, which can't be read
    here.
    """

    shared: bool
    budgets: tuple[ComparedShown, ...]
    corrected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShown:
    """A tenant's sums from ``begin`` to ``end`` (Unix seconds, ``end`` excluded), by version and outcome."""

    tenant: TenantId
    begin: float
    end: float
    lines: tuple[UsageLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """A page of the ledger; ``next`` is the following page's ``after`` and is empty on the last page."""

    rows: tuple[LedgerRow, ...]
    next: str


@router.get("/budgets")
async def budgets(control: Controlled, caller: Reader) -> BudgetList:
    """List the budgets in force with their spend by the ledger, the fullest first."""
    lines = await budget.read(control.ledger, caller.visible(await control.ring()), control.clock.now())
    return BudgetList(budgets=tuple(_shown(line) for line in sorted(lines, key=lambda line: -line.used_ratio)))


@router.get("/budgets/reconcile")
async def reconcile(control: Controlled, _: Operator) -> Reconciled:
    """Compare the shared meters with the ledger; at rest there is no difference."""
    compared = await _compare(control)
    return Reconciled(shared=compared is not None, budgets=_compared(compared or ()), corrected=0)


@router.post("/budgets/reconcile")
async def rebuild(control: Controlled, caller: Operator) -> Reconciled:
    """Set the shared meters to the ledger's sums. For a platform at rest."""
    act = control.act(caller, "budgets.rebuild", "budgets")
    compared, meters = await _compare(control), control.meters
    if compared is None or meters is None:
        raise Conflict(
            "without a limits store the counters are in the gateways, which rebuild them from the ledger at each start"
        )
    await control.audit.note(act)
    corrected = await correct(compared, meters)
    return Reconciled(shared=True, budgets=_compared(await _compare(control) or ()), corrected=corrected)


@router.patch("/budgets/{kind}/{name}")
async def cap(control: Controlled, caller: Operator, kind: str, name: str, body: Sent[Caps]) -> Plan:
    """Set the spending cap of a key, a tenant or an organisation for a day or a month; a cap left out stays.

    Spend in the present window counts: shared meters are raised to the ledger at once.
    """
    act = control.act(caller, f"{kind}.budget")
    if kind not in set(ScopeKind):
        raise InvalidField(f"budgets belong to one of {', '.join(ScopeKind)}", param="kind")
    whose = ScopeId(kind=ScopeKind(kind), id=name)
    noted = replace(act, tenant=(await control.ring()).tenant_of(str(whose)))
    plan = await plans.change(control.tenancy, whose, body, noted)
    if control.meters is not None:
        lines = await budget.read(control.ledger, await control.ring(), act.at)
        await control.meters.raise_spent({line.budget.meter: line.spent for line in lines})
    return plan


async def _span(control: Controlled, begin: Second = 0.0, end: Second = 0.0) -> Span:
    now = control.clock.now()
    return Span(begin=begin or budget.month(now).span.begin, end=end or now)


Asked = Annotated[Span, Depends(_span)]


class Format(StrEnum):
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Query of a ledger page: the previous page's ``next``, the most rows, and the format."""

    after: str = ""
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 1000
    format: Format = Format.JSON


@router.get("/usage/rows", response_model=LedgerPage, responses=_OR_CSV)
async def rows(
    control: Controlled,
    caller: Reader,
    span: Asked,
    page: Annotated[Page, Depends()],
    tenant: str = "",
) -> LedgerPage | Response:
    """Export the ledger in the order of the requests' ends, page by page, as JSON or CSV.

    ``begin`` and ``end`` are Unix seconds, ``after`` is the previous page's ``next``; a CSV page's cursor is in the
    header ``x-penstock-next``.
    """
    asked = TenantId(tenant) if tenant else caller.reach
    if asked is not None:
        caller.check_tenant(asked)
    found = await control.ledger.page(span, tenant=asked, after=_cursor(page.after), limit=page.limit)
    following = f"{found[-1].closed_at!r},{found[-1].request}" if len(found) == page.limit else ""
    if page.format is Format.CSV:
        return Response(as_csv(found), media_type=CSV, headers={NEXT: following})
    return LedgerPage(rows=found, next=following)


@router.get("/usage/{tenant}")
async def usage(control: Controlled, caller: Reader, span: Asked, tenant: TenantId) -> UsageShown:
    """Sum up a tenant's requests by version and outcome, or those of copies or judges; by default of this month."""
    caller.check_tenant(tenant)
    if tenant not in (SHADOWS, JUDGES):
        await control.tenant(tenant)
    lines = await control.ledger.usage(tenant, span)
    return UsageShown(tenant=tenant, begin=span.begin, end=span.end, lines=lines)


async def _compare(control: Control) -> tuple[BudgetComparison, ...] | None:
    if control.meters is None:
        return None
    return await compare(control.ledger, control.meters, await control.ring(), control.clock.now())


def as_csv(rows: Sequence[LedgerRow]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(astuple(row) for row in rows)
    return text.getvalue()


def _cursor(text: str) -> Cursor | None:
    if not text:
        return None
    at, _, request = text.partition(",")
    try:
        closed_at = float(at)
    except ValueError:
        closed_at = math.nan
    if not math.isfinite(closed_at):
        raise InvalidField("this is no cursor of a page", param="after")
    return Cursor(closed_at, request)


def _shown(line: BudgetLine) -> BudgetShown:
    window = line.budget.window
    return BudgetShown(
        scope=line.budget.scope,
        period=window.period,
        window=window.name,
        cap=line.budget.cap,
        spent=line.spent,
        used_ratio=round(line.used_ratio, 6),
        ends_at=window.span.end,
    )


def _compared(found: Sequence[BudgetComparison]) -> tuple[ComparedShown, ...]:
    return tuple(
        ComparedShown(
            scope=one.line.budget.scope,
            window=one.line.budget.window.name,
            ledger=one.line.spent,
            counted=one.counted,
            difference=one.difference,
        )
        for one in found
    )
