"""Migrations on a real server."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.migrations import Migration, known, migrate
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.connectors.postgres.tables import PostgresTables
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.errors import Conflict, InvalidField, StoreUnavailable
from penstock.domain.ids import KeyId
from tests.support.samples import control_plane as things

pytestmark = pytest.mark.integration
MORE = Migration(number=known()[-1].number + 1, name="more", sql="create table more (x int)")


async def test_applied_ones_are_not_applied_again(database: Database) -> None:
    """On an up-to-date database nothing is done, and a new migration is applied once."""
    assert await migrate(database) == 0
    assert await migrate(database, (*known(), MORE)) == 1
    assert await migrate(database, (*known(), MORE)) == 0


async def test_several_processes_may_migrate_at_once(database_dsn: str) -> None:
    """Four programs that start together apply a migration once between them."""

    async def one() -> int:
        async with Database(database_dsn) as database:
            return await migrate(database, (*known(), MORE))

    assert sum(await asyncio.gather(*(one() for _ in range(4)))) == 1


async def test_a_changed_migration_is_refused(database: Database) -> None:
    """A file that was edited after it had been applied stops the start."""
    first, *rest = known()
    edited = Migration(number=first.number, name=first.name, sql=first.sql + "-- edited")
    with pytest.raises(Conflict, match="0001 was changed"):
        await migrate(database, (edited, *rest))


async def test_a_failed_migration_leaves_nothing(database: Database) -> None:
    """All missing migrations are applied or none."""
    broken = Migration(number=MORE.number + 1, name="broken", sql="create table broken (x nonsense)")
    with pytest.raises(asyncpg.PostgresError):
        await migrate(database, (*known(), MORE, broken))
    assert await migrate(database, (*known(), MORE)) == 1


async def test_an_older_program_leaves_newer_tables_alone(database: Database) -> None:
    """A program that knows fewer migrations than were applied works on."""
    await migrate(database, (*known(), MORE))
    assert await migrate(database) == 0


def test_numbers_have_no_gap(tmp_path: Path) -> None:
    """A folder with a missing number is refused."""
    (tmp_path / "0002_late.sql").write_text("select 1")
    with pytest.raises(ValueError, match="gaps"):
        known(tmp_path)


@pytest.mark.parametrize(
    "sql",
    [
        "update model_version set name = 'other'",
        "delete from model_version",
        "truncate model_version cascade",
        "update audit_event set who = 'nobody'",
        "delete from audit_event",
        "truncate audit_event",
        "insert into model_version values ('x', 'x', repeat('0', 64), '{}', default, 'signed', 0)",
    ],
)
async def test_what_is_written_once_stays(database: Database, sql: str) -> None:
    """The database itself refuses to change a version or an audit row, and a digest that is not its content's."""
    await PostgresRegistry(database).add_version(things.version(), "sig", things.act())
    with pytest.raises(Conflict):
        await database.rows(sql)
    assert await PostgresRegistry(database).versions() == (things.version(),)


async def test_a_dead_database_is_told_fast() -> None:
    """Without a server every call says so within a moment, and opening and closing the way to it works."""
    async with Database("postgresql://penstock@/postgres?host=/nowhere") as database, asyncio.timeout(1.0):
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await PostgresTables(database).latest()


async def test_a_value_that_can_not_be_stored_is_the_callers_fault(database: Database) -> None:
    """A NUL in a text and a number without bound are bad requests, not outages."""
    with pytest.raises(InvalidField):
        await PostgresTables(database).numbered(10**30)
    with pytest.raises(InvalidField):
        await PostgresTenancy(database).key(KeyId("nul\0"))
