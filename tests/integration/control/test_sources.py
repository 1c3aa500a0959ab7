"""What gateways know of the platform, through every weather of the database."""

import asyncio
import json
import os
import signal
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.connectors.postgres.migrations import migrate
from penstock.connectors.postgres.safety import PostgresPacks
from penstock.connectors.postgres.sources import KeySource, PackSource, TableSource
from penstock.connectors.postgres.tables import PostgresTables
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.ids import TenantId, VersionId
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import KeyRing, Plan, Priority, Tenant
from penstock.filters.book import Book
from penstock.filters.pack import Pack
from tests.support.patience import patient
from tests.support.samples import control_plane as things

pytestmark = pytest.mark.integration
Followed = RoutingTable | KeyRing | Book
Source = TableSource | KeySource | PackSource
NOWHERE = "postgresql://penstock@/postgres?host=/nowhere"


def table(number: int) -> RoutingTable:
    return RoutingTable(number=number, made_at=float(number))


@asynccontextmanager
async def following(source: Source) -> AsyncIterator[list[Followed]]:
    got: list[Followed] = []

    async def take(value: Followed) -> None:
        got.append(value)

    task = asyncio.create_task(source.run(take))
    try:
        yield got
    finally:
        assert not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(check: Callable[[], object], within_s: float = 5.0) -> float:
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(patient(within_s)):
        while not check():  # noqa: ASYNC110  what is watched is another task's doing
            await asyncio.sleep(0.005)
    return asyncio.get_running_loop().time() - began


async def test_a_table_is_pushed_and_kept(database: Database, database_dsn: str, tmp_path: Path) -> None:
    """A published table arrives by notification, long before a poll, and lies on disk for its owner alone."""
    path = tmp_path / "run" / "table.json"
    source = TableSource(database_dsn, path)
    assert source.age_s == float("inf")
    async with following(source) as got:
        await until(lambda: source.age_s < 1.0)
        for number in (1, 2, 3):
            await PostgresTables(database).publish(table(number))
            assert await until(partial(got.__contains__, table(number))) < 1.0
        await until(lambda: msgspec.json.decode(path.read_bytes(), type=RoutingTable) == table(3))
    assert got == [table(1), table(2), table(3)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_polling_finds_what_was_not_notified(database: Database, database_dsn: str, tmp_path: Path) -> None:
    """A table with a lost notification arrives with the next poll."""
    await database.rows("alter table routing_table disable trigger routing_table_published")
    async with following(TableSource(database_dsn, tmp_path / "table.json")) as got:
        await asyncio.sleep(0.2)
        await PostgresTables(database).publish(table(1))
        await until(lambda: got == [table(1)])


async def test_a_bad_table_is_refused_and_the_last_good_one_stays(
    database: Database, database_dsn: str, tmp_path: Path
) -> None:
    """A table that is not valid is counted and neither used nor kept; the next good one is."""
    path = tmp_path / "table.json"
    source = TableSource(database_dsn, path)
    async with following(source) as got:
        await PostgresTables(database).publish(table(1))
        await until(lambda: got)
        bad = RoutingTable(number=2, made_at=2.0, routes=(things.route("chat", VersionId("unknown@1")),))
        await PostgresTables(database).publish(bad)
        await until(lambda: source.refused == 1)
        await database.rows('insert into routing_table (number, body, made_at) values (3, \'{"number": "x"}\', 3)')
        await until(lambda: source.refused == 2)
        assert got == [table(1)]
        assert json.loads(path.read_bytes())["number"] == 1
        await PostgresTables(database).publish(table(4))
        await until(lambda: got[-1] == table(4))


async def test_packs_are_pushed_and_what_was_not_pushed_is_refused(
    database: Database, database_dsn: str, tmp_path: Path
) -> None:
    """Each push, roll back and floor arrives by notification; a row with other rules than its digest's is refused."""
    store, one, two = PostgresPacks(database), Pack(id="own", version=1), Pack(id="own", version=2)
    act = Act(who="k", what="safety.push", target="own", at=1.0)
    source = PackSource(database_dsn, tmp_path / "safety.json")
    async with following(source) as got:
        await until(lambda: got == [Book()])
        for change, expected in (
            (store.push(one, act), Book(packs=(one,))),
            (store.push(two, act), Book(packs=(two,))),
            (store.choose("own", None, act), Book(packs=(one,))),
            (store.put_floor(("own",), act), Book(packs=(one,), floor=("own",))),
        ):
            await change
            assert await until(lambda: got[-1] == expected) < 1.0  # noqa: B023  asked at once
        insert = "insert into safety_pack values (repeat('0', 64), 'own', 3, '{\"id\": \"own\", \"version\": 3}', 1)"
        await database.rows(insert)
        await store.choose("own", 3, act)
        await until(lambda: source.refused == 1)
    assert got[-1] == Book(packs=(one,), floor=("own",))


async def test_the_copy_serves_while_the_database_is_away(tmp_path: Path) -> None:
    """Started without a database, a gateway has its last good table at once, and nothing is raised."""
    path = tmp_path / "table.json"
    path.write_bytes(msgspec.json.encode(table(7)))
    source = TableSource(NOWHERE, path)
    async with following(source) as got:
        await until(lambda: got == [table(7)])
        await asyncio.sleep(0.5)
    assert source.age_s == float("inf")


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"number": 1}'])
async def test_a_damaged_copy_is_not_used(tmp_path: Path, damage: bytes) -> None:
    """A copy that can't be read is counted as refused."""
    path = tmp_path / "table.json"
    path.write_bytes(damage)
    source = TableSource(NOWHERE, path)
    async with following(source) as got:
        await until(lambda: source.refused == 1)
    assert got == []


async def test_a_database_that_is_not_migrated_yet_is_waited_for(postgres_dsn: str, tmp_path: Path) -> None:
    """A gateway that starts before the tables exist waits for them."""
    source = TableSource(postgres_dsn, tmp_path / "table.json")
    async with following(source) as got:
        await asyncio.sleep(0.5)
    assert got == []


async def test_keys_arrive_when_they_change(database: Database, database_dsn: str, tmp_path: Path) -> None:
    """A minted key, and then its revocation, are with the gateway in well under two seconds."""
    path = tmp_path / "keys.json"
    store = PostgresTenancy(database)
    plan = Plan(priority=Priority.INTERACTIVE, weight=4, max_concurrent=7, deadline_s=1.5)
    acme = Tenant(id=TenantId("acme"), name="Acme", plan=plan)
    secret, key = mint(acme.id, pepper=b"p" * 32, now=5.0)
    orgs = await store.orgs()
    async with following(KeySource(database_dsn, path)) as got:
        await store.add_tenant(acme, things.act())
        await store.add_key(key, things.act())
        assert await until(lambda: KeyRing(keys=(key,), tenants=(acme,), orgs=orgs) in got) < 1.0
        await store.revoke_key(key.id, things.act(at=9.0))
        revoked = KeyRing(keys=(replace(key, revoked_at=9.0),), tenants=(acme,), orgs=orgs)
        assert await until(partial(got.__contains__, revoked)) < 1.0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret.encode() not in path.read_bytes()


async def test_a_source_survives_its_database(own_server: EmbeddedPostgres, tmp_path: Path) -> None:
    """After `kill -9` of Postgres the age grows and nothing is raised; when it is back, changes arrive again."""
    own_server.start()
    async with Database(own_server.dsn) as database:
        await migrate(database)
        tables = PostgresTables(database)
        await tables.publish(table(1))
        source = TableSource(own_server.dsn, tmp_path / "table.json")
        async with following(source) as got:
            await until(lambda: got == [table(1)])
            os.kill(own_server.pid(), signal.SIGKILL)
            await until(lambda: source.age_s > 2.5)
            assert got == [table(1)]
            await asyncio.to_thread(own_server.start)
            await tables.publish(table(2))
            await until(lambda: got == [table(1), table(2)])
            assert source.age_s < 2.5


async def test_a_full_disk_stops_no_table(database: Database, database_dsn: str, tmp_path: Path) -> None:
    """Where the copy can't be written, the table is used all the same."""
    (tmp_path / "file").touch()
    async with following(TableSource(database_dsn, tmp_path / "file" / "table.json")) as got:
        await PostgresTables(database).publish(table(1))
        await until(lambda: got == [table(1)])
        await PostgresTables(database).publish(table(2))
        await until(lambda: got[-1] == table(2))


async def test_a_statement_is_one_round_trip(database: Database, database_dsn: str) -> None:
    """The driver sends nothing behind it; a transaction that failed leaves none open, and its lock with nobody."""

    async def fails() -> None:
        async with database.transaction() as session:
            await session.run("select pg_advisory_xact_lock(17)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    await database.rows("select 1 as seventeen")
    async with Database(database_dsn) as other:
        told = await other.rows(
            "select state, query from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )
        (free,) = await other.rows("select pg_try_advisory_xact_lock(17) as taken")
    assert [tuple(row) for row in told] == [("idle", "select 1 as seventeen")]
    assert free["taken"]
