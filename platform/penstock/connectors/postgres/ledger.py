"""The usage ledger in Postgres."""

from collections.abc import Callable, Sequence

import msgspec

from penstock.connectors.postgres import safety
from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.ledger import Cursor, Ended, Forgiven, LedgerRow, Span, Spent, UsageLine, hour_of
from penstock.filters.evidence import SealedText
from penstock.filters.intervention import Intervention

_SQL = load("ledger")
_COLUMNS = tuple(LedgerRow.__dataclass_fields__)
_FORGIVEN = tuple(Forgiven.__dataclass_fields__)


async def append(database: Database | Session, rows: Sequence[LedgerRow]) -> None:
    if rows:
        columns = [[getattr(row, column) for row in rows] for column in _COLUMNS]
        await database.rows(_SQL["append"], *columns)


class PostgresLedger:
    def __init__(self, database: Database, drop: Callable[[int], None] = lambda _: None) -> None:
        self._database, self._drop = database, drop

    async def append(self, rows: Sequence[LedgerRow]) -> None:
        await append(self._database, rows)

    async def record(self, interventions: Sequence[Intervention]) -> None:
        await safety.append(self._database, interventions)

    async def keep(self, texts: Sequence[SealedText]) -> None:
        self._drop(await safety.keep(self._database, texts))

    async def page(
        self, span: Span, *, tenant: TenantId | None = None, after: Cursor | None = None, limit: int = 1000
    ) -> tuple[LedgerRow, ...]:
        at, request = after or Cursor(0.0, "")
        rows = await self._database.rows(_SQL["page"], tenant, span.begin, span.end, at, request, limit)
        return tuple(msgspec.convert(dict(row), LedgerRow) for row in rows)

    async def spent(self, span: Span) -> tuple[Spent, ...]:
        return await self._spent(_SQL["spent"], span.begin, span.end)

    async def spent_in(self, period: str) -> tuple[Spent, ...]:
        return await self._spent(_SQL["spent_in"], period)

    async def _spent(self, sql: str, *arguments: object) -> tuple[Spent, ...]:
        rows = await self._database.rows(sql, *arguments)
        return tuple(
            Spent(tenant=TenantId(row["tenant"]), key=KeyId(row["key"]), cost=MicroUsd(row["cost"])) for row in rows
        )

    async def usage(self, tenant: TenantId, span: Span) -> tuple[UsageLine, ...]:
        rows = await self._database.rows(_SQL["usage"], tenant, span.begin, span.end)
        return tuple(msgspec.convert(dict(row), UsageLine) for row in rows)

    async def ended(self, since: float) -> tuple[Ended, ...]:
        rows = await self._database.rows(_SQL["ended"], hour_of(since))
        return tuple(msgspec.convert(dict(row), Ended) for row in rows)

    async def forgive(self, ends: Sequence[Forgiven]) -> None:
        if ends:
            columns = [[getattr(one, column) for one in ends] for column in _FORGIVEN]
            await self._database.rows(_SQL["forgive"], *columns)
