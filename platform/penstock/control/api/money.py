"""Budgets and what is spent of them, usage, the ledger itself, and whether counters agree; tenants see their own."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import astuple, fields, replace

from fastapi import APIRouter, Request, Response

from penstock.control.api import plans
from penstock.control.api.bodies import BudgetShown, Caps, ComparedShown, Reconciled, RowsShown, UsageShown
from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, read
from penstock.control.budgets.reconcile import BudgetComparison, compare, correct
from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.ids import TenantId
from penstock.domain.tenancy import budget
from penstock.domain.tenancy.budget import BudgetLine
from penstock.domain.tenancy.ledger import Cursor, LedgerRow, Span
from penstock.domain.tenancy.tenant import SHADOWS, ScopeId, ScopeKind

MAX_ROWS = 5000
CSV = "text/csv; charset=utf-8"
NEXT = "x-penstock-next"
"""The header that carries a CSV page's cursor."""
COLUMNS = tuple(field.name for field in fields(LedgerRow))


class Money:
    """What was spent, and what may be."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["money"])
        router.add_api_route("/budgets", self.budgets, methods=["GET"])
        router.add_api_route("/budgets/reconcile", self.reconcile, methods=["GET"])
        router.add_api_route("/budgets/reconcile", self.rebuild, methods=["POST"])
        router.add_api_route("/budgets/{kind}/{name}", self.cap, methods=["PATCH"])
        router.add_api_route("/usage/rows", self.rows, methods=["GET"])
        router.add_api_route("/usage/{tenant}", self.usage, methods=["GET"])
        return router

    async def budgets(self, request: Request) -> Response:
        """List the budgets in force with what the ledger says was spent of them, the fullest first."""
        ring = (await self._control.reader(request)).visible(await self._control.ring())
        lines = await budget.read(self._control.ledger, ring, self._control.clock.now())
        return answer({"budgets": [_shown(line) for line in sorted(lines, key=lambda line: -line.used_ratio)]})

    async def cap(self, request: Request, kind: str, name: str) -> Response:
        """Set what a key, a tenant or an organisation may spend a day or a month; what is not named stays.

        What was already spent in the present window counts: shared meters are brought up to the ledger at once.
        """
        act = await self._control.act(request, f"{kind}.budget")
        if kind not in set(ScopeKind):
            raise InvalidField(f"budgets belong to one of {', '.join(ScopeKind)}", param="kind")
        caps, whose = await read(request, Caps), ScopeId(kind=ScopeKind(kind), id=name)
        noted = replace(act, tenant=(await self._control.ring()).tenant_of(str(whose)))
        plan = await plans.change(self._control.tenancy, whose, caps, noted)
        if self._control.meters is not None:
            lines = await budget.read(self._control.ledger, await self._control.ring(), act.at)
            await self._control.meters.raise_spent({line.budget.meter: line.spent for line in lines})
        return answer(plan)

    async def reconcile(self, request: Request) -> Response:
        """Compare what the shared meters count with the ledger; at rest there is no difference."""
        await self._control.operator(request)
        compared = await self._compared()
        return answer(Reconciled(shared=compared is not None, budgets=_compared(compared or ()), corrected=0))

    async def rebuild(self, request: Request) -> Response:
        """Make the shared meters count what the ledger holds. For a platform at rest."""
        act = await self._control.act(request, "budgets.rebuild", "budgets")
        compared, meters = await self._compared(), self._control.meters
        if compared is None or meters is None:
            raise Conflict("the meters are inside the gateways; they are rebuilt from the ledger at each start")
        await self._control.audit.note(act)
        corrected = await correct(compared, meters)
        return answer(Reconciled(shared=True, budgets=_compared(await self._compared() or ()), corrected=corrected))

    async def usage(self, request: Request, tenant: TenantId, begin: float = 0.0, end: float = 0.0) -> Response:
        """Sum up a tenant's requests by version and outcome, or those of copies; silent is this month. Unix seconds."""
        (await self._control.reader(request)).check_tenant(tenant)
        span = self._span(begin, end)
        if tenant != SHADOWS and tenant not in {one.id for one in await self._control.tenancy.tenants()}:
            raise InvalidField(f"there is no tenant {tenant}", param="tenant")
        lines = await self._control.ledger.usage(tenant, span)
        return answer(UsageShown(tenant=tenant, begin=span.begin, end=span.end, lines=lines))

    async def rows(self, request: Request) -> Response:
        """Export the ledger in the order of the requests' ends, page by page, as JSON or CSV.

        Query: ``tenant``, ``begin`` and ``end`` (Unix seconds), ``after`` (the page before's ``next``), ``limit``,
        ``format`` (json or csv; a CSV page's cursor is in the header ``x-penstock-next``).
        """
        caller, query = await self._control.reader(request), request.query_params
        span = self._span(_number(query.get("begin", "0"), "begin"), _number(query.get("end", "0"), "end"))
        limit = int(max(1, min(MAX_ROWS, _number(query.get("limit", "1000"), "limit"))))
        tenant = TenantId(query["tenant"]) if query.get("tenant") else caller.reach
        if tenant is not None:
            caller.check_tenant(tenant)
        rows = await self._control.ledger.page(span, tenant=tenant, after=_cursor(query.get("after", "")), limit=limit)
        following = f"{rows[-1].closed_at!r},{rows[-1].request}" if len(rows) == limit else ""
        if query.get("format", "json") == "csv":
            return Response(as_csv(rows), media_type=CSV, headers={NEXT: following})
        return answer(RowsShown(rows=rows, next=following))

    async def _compared(self) -> tuple[BudgetComparison, ...] | None:
        if self._control.meters is None:
            return None
        ring, now = await self._control.ring(), self._control.clock.now()
        return await compare(self._control.ledger, self._control.meters, ring, now)

    def _span(self, begin: float, end: float) -> Span:
        now = self._control.clock.now()
        if not (math.isfinite(begin) and math.isfinite(end)):
            raise InvalidField("times are Unix seconds", param="begin")
        return Span(begin=begin or budget.month(now).span.begin, end=end or now)


def as_csv(rows: Sequence[LedgerRow]) -> str:
    """Return rows as CSV with a line of names (RFC 4180)."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(astuple(row) for row in rows)
    return text.getvalue()


def _number(text: str, param: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidField("this is no number", param=param) from error
    if not math.isfinite(value):
        raise InvalidField("this is no number", param=param)
    return value


def _cursor(text: str) -> Cursor | None:
    at, _, request = text.partition(",")
    return Cursor(_number(at, "after"), request) if text else None


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
