"""`penstock audit verify` as cron runs it: its exit codes and words on a log that the database's owner tampers with."""

import asyncio
import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.audit.verifier import SHIPPED_WITHIN_S
from penstock.connectors.postgres import roles
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.domain.errors import PenstockError
from penstock.settings.stores import with_user
from tests.support.audit_chains import TABLES, Chained
from tests.support.clock import ManualClock
from tests.support.platforms import commands
from tests.support.samples.interventions import intervention

pytestmark = pytest.mark.integration
WHOLE, UNVERIFIED, BROKEN, LATE = 0, 1, 3, 4
PERSON = "an_auditor_of_tests"


@dataclass
class Command:
    """The command in a home of its own, which has the public key of the platform."""

    home: Path
    dsn: str

    async def run(self, *arguments: str, **more: str) -> tuple[int, str]:
        """Return its exit code and all that it says."""
        told = {"PENSTOCK_HOME": str(self.home), "PENSTOCK_DATABASE_URL": self.dsn, "PENSTOCK_REGION": "eu"}
        words = ["audit", "verify", *arguments]
        done = await asyncio.to_thread(commands.run, words, {**os.environ, **told, **more})
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
async def chained(database: Database, tmp_path: Path) -> Chained:
    """Return a log of two shipped segments; their heads were signed three days apart."""
    found = Chained(database, tmp_path)
    await found.act(5, "a")
    await found.settle()
    found.clock.advance(3 * 86_400.0)  # type: ignore[attr-defined]
    await found.act(4, "b")
    await found.settle()
    return found


@pytest.fixture
async def command(chained: Chained, database_dsn: str, tmp_path: Path) -> Command:
    """Return the command, in the role of a person who may read the audit tables and nothing else of them."""
    await roles.grant(chained.database, {})
    await chained.database.rows(f"drop role if exists {PERSON}")
    await chained.database.rows(f"create role {PERSON} login in role {roles.AUDITORS}")
    await chained.settle()
    return Command(tmp_path, with_user(database_dsn, PERSON))


async def test_a_whole_chain_is_verified_by_a_person(command: Command) -> None:
    """With 0 and a sentence, in the database and from its segments; as JSON, one object."""
    code, said = await command.run()
    assert (code, said.splitlines()[-1]) == (WHOLE, "The chain is whole.")
    code, said = await command.run("--from-bucket", "--json")
    found = json.loads(said)
    assert (code, found["whole"], found["last"], found["files"], found["findings"]) == (WHOLE, True, 10, 3, [])


async def test_what_cannot_be_verified_is_not_called_whole(command: Command, tmp_path: Path) -> None:
    """Without the database, the key or a right to read: 1, with what to do."""
    (tmp_path / "elsewhere").mkdir()
    for more in (
        {"PENSTOCK_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"},
        {"PENSTOCK_HOME": str(tmp_path / "elsewhere")},
        {"PENSTOCK_DATABASE_URL": command.dsn.replace(PERSON, roles.RUNNER)},
    ):
        code, said = await command.run(**more)
        assert (code, "whole" in said) == (UNVERIFIED, False), said


async def test_tampering_ends_with_3_and_says_where(command: Command, chained: Chained) -> None:
    """An edited act is found in the database; a chain cut off with its heads from its segments alone."""
    await chained.keep()
    await chained.owner("update audit_event set who = 'another' where id = 3")
    code, said = await command.run()
    assert (code, "edited: link 3 does not fit its act 3." in said) == (BROKEN, True), said
    await chained.restore()
    await chained.owner(
        "delete from audit_link where number > 5",
        "delete from audit_event where id > 5",
        'delete from audit_segment where "last" > 5',
    )
    assert (await command.run())[0] == WHOLE
    code, said = await command.run("--from-bucket")
    assert (code, "truncated: the database's last head is 5; the shipped one is 10." in said) == (BROKEN, True), said


async def test_since_takes_what_was_signed_before_as_its_head_says(command: Command, chained: Chained) -> None:
    """A day's check reads a day's acts: an older edit is not its business, a newer one is."""
    day = datetime.fromtimestamp(chained.clock.now() - 86_400.0, UTC).date().isoformat()
    await chained.keep()
    for event, code in ((3, WHOLE), (7, BROKEN)):
        await chained.owner(f"update audit_event set who = 'another' where id = {event}")  # noqa: S608  a number
        found = await command.run("--since", day, "--from-bucket", "--json")
        assert (found[0], json.loads(found[1])["links"]) == (code, 10 - 5), found
        await chained.restore()


async def test_an_act_that_waits_too_long_ends_with_4(command: Command, chained: Chained) -> None:
    """Whole, and late: cron's mail says so, and no finding does; so is one noted in the future, or at no time."""
    await chained.act(1)
    for noted in ("noted_at - 61", "noted_at + 100000", "'nan'"):
        await chained.database.rows(f"update audit_pending set noted_at = {noted}")  # noqa: S608  our own values
        code, said = await command.run()
        assert (code, "late: 1 acts have no link yet" in said) == (LATE, True), said


GARBLED = {
    "text": ("{} || 'x'",),
    "bytea": ("sha256({})",),
    "double precision": ("-{} - 1", "{} + 100", "7", "'nan'", "'infinity'"),
    "bigint": ("{} + 1000",),
    "integer": ("{} + 1000",),
}
NO_EVIDENCE = [("closed_at", "7"), ("closed_at", "{} + 100"), ("shipped_at", "7"), ("shipped_at", "{} + 100")]
"""What the how-to page names as not found."""
LOOSE = """
do $$ declare one record; begin
    for one in select conrelid::regclass as of, conname from pg_constraint
        where contype in ('p', 'u', 'c') and conrelid::regclass::text = any('{%s}') loop
        execute format('alter table %%s drop constraint %%I', one.of, one.conname);
    end loop;
end $$"""


async def test_no_other_object_stands_for_the_log(command: Command, chained: Chained) -> None:
    """A schema named like the role, with whole copies, and operators in it are not read; a view ends with 1."""
    await chained.owner(
        f"create schema {PERSON}",
        f"grant usage on schema {PERSON} to {PERSON}",
        *(f"create table {PERSON}.{table} as table {table}" for table in TABLES),
        f"grant select on all tables in schema {PERSON} to {PERSON}",
        f"alter role {PERSON} set search_path = {PERSON}",
        "create function is_never(double precision, integer) returns bool language sql as 'select false'",
        "create operator < (leftarg = double precision, rightarg = integer, function = is_never)",
        "update audit_event set who = 'another' where id = 3",
    )
    code, said = await command.run()
    assert (code, "edited: link 3" in said) == (BROKEN, True), said
    for statement in ("alter table audit_link rename to links", "create view audit_link as table links"):
        await chained.database.rows(statement)
    code, said = await command.run()
    assert (code, "audit_link is no table" in said) == (UNVERIFIED, True), said


async def test_a_connection_reads_no_temporary_table_for_ours(database_dsn: str) -> None:
    """Nor by the address's or the role's own search path."""
    for more in ("search_path=pg_temp", "options=-csearch_path%3Dpg_temp"):
        async with Database(f"{database_dsn}&{more}", max_connections=1) as database:
            await database.rows("create temp table tenant (shadow int)")
            assert await database.rows("select plan from tenant where false") == []


async def test_a_segment_that_is_not_shipped_is_late_by_its_signed_time(chained: Chained) -> None:
    """Whatever its row says of when it was made."""
    chained.clock = ManualClock(time.time() - SHIPPED_WITHIN_S - 1)
    await chained.act(1)
    await chained.settle(ship=False)
    await chained.owner("update audit_segment set closed_at = closed_at + 1e6")
    done = await chained.verified(from_bucket=False)
    assert (done.report.findings, [said[:27] for said in done.late]) == ([], ["1 segments are not shipped,"])


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_each_column_nulled_or_garbled_is_damage(chained: Chained, database: Database) -> None:
    """The owner may drop each constraint: verification then says damage, as of other values; linking is refused or goes
    on, and neither crashes.
    """
    await PostgresLedger(database).record([intervention("r1"), intervention("r2")])
    await chained.settle()
    await chained.act(2, "waits")
    columns = await database.rows(
        "select table_name, column_name, data_type from information_schema.columns where table_name = any($1)", TABLES
    )
    await chained.owner(LOOSE % ",".join(TABLES), "alter table audit_event alter column id drop identity")
    await chained.owner(*(f'alter table {table} alter column "{column}" drop not null' for table, column, _ in columns))
    await chained.keep()
    missed = []
    for table, column, kind in columns:
        quoted = f'"{column}"'
        for value in ("null", *GARBLED[kind]):
            changed = value.format(quoted)
            await chained.owner(
                f"update {table} set {quoted} = {changed} where ctid = (select min(ctid) from {table})"  # noqa: S608
            )
            found = await chained.verified(from_bucket=False)
            if found.report.is_whole and not found.late:
                missed.append((column, value))
            with suppress(PenstockError):
                await chained.sequencer().link()
            await chained.restore()
    assert (sorted(missed), len(columns)) == (NO_EVIDENCE, 32)
    assert (await chained.verified()).report.is_whole
