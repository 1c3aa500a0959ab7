"""The audit log: one row per administrative act, written in the act's transaction, never changed."""

from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load
from penstock.domain.ids import TenantId
from penstock.domain.tenancy.audit import ALL, Act, Selection

_SQL = load("audit")


async def note(session: Session, act: Act) -> None:
    await session.run(_SQL["note"], act.at, act.who, act.what, act.target, act.detail, act.tenant)


class PostgresAudit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, act: Act) -> None:
        async with self._database.transaction() as session:
            await note(session, act)

    async def note_threshold(self, act: Act) -> bool:
        row = await self._database.row(
            _SQL["note_threshold"], act.at, act.who, act.what, act.target, act.detail, act.tenant
        )
        return row is not None

    async def newest(self, limit: int, *, tenant: TenantId | None = None, of: Selection = ALL) -> tuple[Act, ...]:
        rows = await self._database.rows(_SQL["newest"], limit, tenant, of.since, of.until, of.who, of.what)
        return tuple(Act(**dict(row)) for row in rows)
