"""Forward-only migrations: ``migrations/NNNN_name.sql``, each applied once, in order, under an advisory lock.

An applied file must never change: its digest is compared. Numbers unknown to this program come from a newer release and
are ignored, so that old and new run side by side during a deploy.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from penstock.connectors.postgres.database import Database, Session
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict, StoreUnavailable

FOLDER = Path(__file__).parent / "migrations"
_SQL = load("migrations")
_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def known(folder: Path = FOLDER) -> tuple[Migration, ...]:
    found = tuple(
        Migration(number=int(path.stem.partition("_")[0]), name=path.stem.partition("_")[2], sql=path.read_text())
        for path in sorted(folder.glob("*.sql"))
    )
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations must be numbered without gaps")
    return found


@asynccontextmanager
async def alone(database: Database, *, within_s: float) -> AsyncIterator[None]:
    """``StoreUnavailable`` if another process prepares this database for too long."""
    async with database.transaction() as session:
        deadline = asyncio.get_running_loop().time() + within_s
        while not await _is_taken(session):
            if asyncio.get_running_loop().time() > deadline:
                raise StoreUnavailable("another program has been preparing the database for too long")
            await asyncio.sleep(_AGAIN_S)
        yield


async def _is_taken(session: Session) -> bool:
    row = await session.row(_SQL["alone"])
    return bool(row and row["taken"])


async def migrate(database: Database, migrations: tuple[Migration, ...] | None = None, *, is_noted: bool = True) -> int:
    """Return the number of applied ones; ``Conflict`` if an applied one was changed. Without missing ones it only
    reads: a role that may not create tables can check too. ``is_noted`` adds an audit row.
    """
    migrations = known() if migrations is None else migrations
    if not await _missing(database, migrations):
        return 0
    async with database.transaction() as session:
        await session.run(_SQL["lock"])
        await session.run(_SQL["prepare"])
        applied = {row["number"]: row["digest"] for row in await session.rows(_SQL["applied"])}
        missing = [migration for migration in migrations if not _is_applied(migration, applied)]
        for migration in missing:
            await _apply(session, migration)
        if missing and is_noted:
            await session.run(_SQL["tell"], missing[-1].name, f"{len(missing)} migrations")
    return len(missing)


async def _missing(database: Database, migrations: tuple[Migration, ...]) -> list[Migration]:
    try:
        applied = {row["number"]: row["digest"] for row in await database.rows(_SQL["applied"])}
    except asyncpg.UndefinedTableError:
        return list(migrations)
    return [migration for migration in migrations if not _is_applied(migration, applied)]


def _is_applied(migration: Migration, applied: dict[int, str]) -> bool:
    digest = applied.get(migration.number)
    if digest is not None and digest != migration.digest:
        raise Conflict(f"migration {migration.number:04} was changed after it had been applied")
    return digest is not None


async def _apply(session: Session, migration: Migration) -> None:
    await session.run(migration.sql)
    await session.run(_SQL["note"], migration.number, migration.name, migration.digest)
