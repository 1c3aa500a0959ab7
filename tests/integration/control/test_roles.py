"""Each process comes into the database by a role of its own, and Postgres itself refuses what is not its work."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import asyncpg
import pytest

from penstock.connectors.postgres import roles
from penstock.connectors.postgres.arms import PostgresArms
from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres, dsn_of
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.postgres.migrations import migrate
from penstock.connectors.postgres.owner import is_owner, is_pepper
from penstock.connectors.postgres.queries import load
from penstock.connectors.postgres.roles import AUDITORS, CONTROLLER, GATEWAY, RUNNER
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.clock import SystemClock
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.outcome import Outcome
from penstock.domain.rollout.arms import ArmSecond
from penstock.domain.serving.agreement import Agreement, Counts, Pair
from penstock.domain.tenancy.audit import NO_TENANT, Act
from penstock.domain.tenancy.ledger import Forgiven
from penstock.domain.tenancy.tenant import Tenant
from penstock.settings.stores import with_files, with_user
from tests.support.patience import patient
from tests.support.samples.ledger_rows import row
from tests.support.stores.postgres import migrated

pytestmark = pytest.mark.integration
NO_PASSWORDS = {GATEWAY: "", CONTROLLER: "", RUNNER: ""}
ACT = Act(who="w", what="budget.threshold", target="t", at=1.0, tenant=NO_TENANT)
WORK = {
    GATEWAY: {
        "sources": "",
        "ledger": "append spent_in forgive",
        "audit": "note_threshold",
        "safety": "packs floor append keep",
        "platform": "fingerprint pepper",
        "arms": "tell ask",
        "jobs": "submit submitted alone enqueued find page_newest page_oldest page_of_all attempts cancel cancel_batch "
        "replay to_replay delete pause resume paused",
        "files": "used begin touch free_key finish keyed find newest oldest lock user delete abandon expire",
        "deletions": "unanswered answers",
        "stored_responses": "add find delete expire events newest",
        "webhooks": "alone create of_tenant one change rotate delete test deliveries replay end_due",
    },
    RUNNER: {
        **dict.fromkeys(("jobs", "runners", "files", "retention"), ""),
        "deletions": "open inputs batch_files texts forget_texts unattributed found stop_jobs stop_batches stop_lines "
        "forget_pauses files forget_files lines forget_lines forget_batches jobs forget_jobs responses "
        "forget_responses swept",
        "webhooks": "take_over waiting claim reseal hold end learn end_due disabled give_back forget overfull",
        "sources": "",
        "ledger": "append spent_in forgive",
        "safety": "packs floor append keep",
    },
    CONTROLLER: {
        "fleet": "",
        "leadership": "",
        "registry": "",
        "tables": "",
        "tenancy": "",
        "deletions": "same shred add find newest unsigned end",
        "platform": "",
        "audit": "note newest",
        "safety": "lock add_pack choose put_floor version before packs floor events texts counts served forget",
        "audit_chain": "alone tail newest_head pending link linked lag hash close unshipped count_unshipped shipped "
        "old move links is_moved",
        "arms": "since forget asked forget_asked",
        "rollouts": "",
        "ledger": "page spent spent_in usage ended",
        "jobs": "find page_newest page_oldest page_of_all attempts cancel replay to_replay pause resume paused",
    },
}
"""The statements of each process by file, all of a file where none is named."""

IMMUTABLE = [f"{verb} {table}" for table in ("ledger", "audit_event") for verb in ("delete from", "truncate")] + [
    "update ledger set cost = 0",
    "update audit_segment set head = 'x'",
    "update audit_segment set moved_at = 1",
    "insert into audit_pending (event) values (1)",
    "update audit_event set who = 'nobody'",
    "insert into ledger_sum values ('2026', 't', 'k', 1, 1)",
    "update ledger_sum set cost = 0",
    "insert into outcome_sum values (0, 'v', 'ok', 1)",
    "update outcome_sum set requests = 9",
    "insert into forgiven_sum values (0, 'v', 'engine_error', 9)",
    "update forgiven_sum set requests = 9",
    "delete from forgiven_sum",
    "insert into alias_minute values (0, 'chat', 1)",
    "update alias_minute set requests = 9",
    "update key_change set number = 0",
    "delete from model_version",
    "delete from auto_alias",
    "delete from version_tenants",
    "update version_tenants set tenants = null",
    "update model_version set signature = 'x'",
    "create table mine (a text)",
    "alter table ledger disable trigger all",
    "drop table ledger",
    "create function mine() returns int language sql as 'select 1'",
    "create role mine",
]
"""What no process may, whatever it was brought to send."""
REFUSED = {
    GATEWAY: [
        *IMMUTABLE,
        "select tenant from ledger",
        "select detail from audit_event",
        "insert into api_key (id) values ('mine')",
        "update api_key set revoked_at = 0",
        "update tenant set plan = '{}'",
        "insert into routing_table (number) values (9)",
        "insert into alias_route (alias) values ('a')",
        "insert into auto_alias (alias) values ('a')",
        "select * from auto_alias",
        "insert into version_tenants (version) values ('a')",
        "select * from version_tenants",
        "select * from deployment",
        "select * from worker_lease",
        "select * from model_version",
        "select * from schema_migration",
        "update platform set fingerprint = 'x'",
        "select job_claim(1, '{}', '{}', '[]', 0)",
        "select job_take_over(1, 0)",
        "select sealed from intervention_text",
        "delete from intervention_text",
        "delete from job",
        "delete from file",
        "update job_enqueued set tokens = 0",
        "update job_flow set served = 0",
        "insert into runner (name, started_at, seen_at) values ('mine', 0, 0)",
    ],
    RUNNER: [
        *IMMUTABLE,
        "update job_enqueued set tokens = 0",
        "update job_flow set served = 0",
        "update api_key set revoked_at = 0",
        "update tenant set plan = '{}'",
        "select * from deployment",
    ],
    CONTROLLER: [
        *IMMUTABLE,
        "insert into ledger (request) values ('r')",
        "update routing_table set body = '{}'",
        "delete from api_key",
        "delete from tenant",
        "insert into schema_migration (number) values (99)",
    ],
    AUDITORS: [
        *IMMUTABLE,
        "select secret_hash from api_key",
        "select * from api_key",
        "insert into audit_event (who) values ('w')",
        "insert into ledger (request) values ('r')",
        "select * from worker_lease",
    ],
}


@pytest.fixture
async def granted(database: Database) -> None:
    """Give the processes their roles in the test's database."""
    await roles.grant(database, NO_PASSWORDS)


@pytest.fixture(scope="module")
def walked(postgres_server: EmbeddedPostgres, postgres_dsn: str) -> Iterator[str]:
    """Return the address of one database with all roles: statements that are explained or refused change nothing."""
    with ThreadPoolExecutor(1) as thread, asyncio.Runner() as runner:  # apart from the loops of tests
        place = migrated(postgres_server, postgres_dsn)
        dsn = thread.submit(runner.run, place.__aenter__()).result()
        thread.submit(runner.run, _granted(dsn)).result()
        yield dsn
        thread.submit(runner.run, place.__aexit__(None, None, None)).result()


async def _granted(dsn: str) -> None:
    async with Database(dsn) as opened:
        await roles.grant(opened, NO_PASSWORDS)


@pytest.fixture
async def gateway(granted: None, database_dsn: str) -> AsyncIterator[Database]:
    """Return the database as a gateway comes into it."""
    async with Database(with_user(database_dsn, GATEWAY)) as opened:
        yield opened


@pytest.fixture
async def controller(granted: None, database_dsn: str) -> AsyncIterator[Database]:
    """Return the database as a controller comes into it."""
    async with Database(with_user(database_dsn, CONTROLLER)) as opened:
        yield opened


def statements(role: str) -> list[tuple[str, str]]:
    """Return every statement of a role's work, by a name for it."""
    return [
        (f"{file}.{name}", sql)
        for file, names in WORK[role].items()
        for name, sql in load(file).items()
        if not names or name in names.split()
    ]


@pytest.mark.parametrize(
    ("role", "name", "sql"),
    [(role, *found) for role in WORK for found in statements(role)],
    ids=str,
)
async def test_a_role_may_run_every_statement_of_its_process(walked: str, role: str, name: str, sql: str) -> None:
    """Finding R16: Postgres plans, and so permits, all that a gateway or a controller asks."""
    connection = await asyncpg.connect(with_user(walked, role))
    await connection.execute(f"explain (generic_plan) {sql}")
    await connection.close()
    assert name


@pytest.mark.parametrize(("role", "sql"), [(role, sql) for role, refused in REFUSED.items() for sql in refused])
async def test_postgres_refuses_what_is_not_a_roles_work(walked: str, role: str, sql: str) -> None:
    """Finding R16: bills, acts and tables can't be changed by a process that was taken over, nor hashes read idly."""
    connection = await asyncpg.connect(walked)
    await connection.execute(f"set role {role}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute(sql)
    await connection.close()


async def test_a_gateway_appends_and_the_database_keeps_the_sums(gateway: Database) -> None:
    """A gateway writes bills and alarms through its adapters, and the sums that it may not write follow."""
    ledger, bill = PostgresLedger(gateway), row("r-1", at=3600.0, cost=7)
    await ledger.append([bill])
    await ledger.append([bill])
    (spent,) = await ledger.spent_in("1970-01")
    assert spent.cost == 7
    assert [await PostgresAudit(gateway).note_threshold(ACT) for _ in range(2)] == [True, False]


async def test_a_gateway_adds_to_an_aliases_requests_and_reads_none(gateway: Database, controller: Database) -> None:
    """Through a function alone: what others have told it can neither see nor change."""
    told = ArmSecond(gateway="g", life="l", number=1, at=0, asked=((Alias("chat"), 3), (Alias("exp"), 1)))
    for _ in range(2):
        await PostgresArms(gateway).tell(told)
    asked = await PostgresArms(controller).asked(Alias("chat"), SystemClock().now(), 3600.0)
    assert asked.requests == 6
    with pytest.raises(StoreUnavailable):
        await PostgresArms(gateway).asked(Alias("chat"), SystemClock().now(), 3600.0)


async def test_a_gateway_adds_comparisons_of_rules_and_reads_none(gateway: Database, controller: Database) -> None:
    """Through a function alone, which takes no counts that can't be."""
    pair = Pair(Alias("auto"), "rest", VersionId("big@1"), "short", VersionId("small@2"))
    one = Agreement(pair=pair, tenant=TenantId("acme"), counts=Counts(answered=2))
    told = ArmSecond(gateway="g", life="l", number=1, at=0, agreements=(one,))
    await PostgresArms(gateway).tell(told)
    wrong = [Counts(pairs=2, texts=1), Counts(answered=1 << 62), Counts(paid=1 << 62), Counts(answered=-1)]
    for counts in wrong:
        with pytest.raises(Conflict):
            await PostgresArms(gateway).tell(replace(told, agreements=(replace(one, counts=counts),)))
    for told_by_hand in ({"paid": "NaN"}, {"other_paid": "Infinity"}, {"alias": "a" * 65}):
        row_ = {**pair._asdict(), "tenant": "acme", **Counts(answered=1)._asdict(), **told_by_hand}
        with pytest.raises(Conflict):
            await gateway.rows("select add_agreements($1::jsonb)", json.dumps([row_]))
    with pytest.raises(StoreUnavailable):
        await PostgresArms(gateway).agreements(Alias("auto"), SystemClock().now(), 3600.0)
    (found,) = await PostgresArms(controller).agreements(Alias("auto"), SystemClock().now(), 3600.0)
    assert found.counts == Counts(answered=2)


async def test_a_gateway_tells_what_budgets_are_to_forgive_and_reads_none(
    gateway: Database, controller: Database
) -> None:
    """Through a function alone: what others have told it can neither see nor change."""
    failed = row("r-1", at=3600.0, cost=7, outcome=Outcome.ENGINE_ERROR)
    own = Forgiven(hour=1, version=failed.version, outcome=failed.outcome, requests=1)
    await PostgresLedger(gateway).append([failed])
    assert [one.requests for one in await PostgresLedger(controller).ended(0.0)] == [1]
    await PostgresLedger(gateway).forgive([own])
    assert await PostgresLedger(controller).ended(0.0) == ()
    with pytest.raises(StoreUnavailable):
        await PostgresLedger(gateway).ended(0.0)


async def test_a_controllers_change_reaches_the_gateways(controller: Database, gateway: Database) -> None:
    """A tenant that the controller makes moves the number that gateways look at, which neither may write."""
    before = await gateway.row(load("sources")["keys_stamp"])
    tenant = Tenant(id=TenantId("t"), name="T")
    await PostgresTenancy(controller).add_tenant(tenant, ACT)
    after = await gateway.row(load("sources")["keys_stamp"])
    assert before is not None and after is not None  # noqa: PT018
    assert after["stamp"] == before["stamp"] + 1


async def test_a_gateway_waits_until_somebody_claims_the_database(gateway: Database, controller: Database) -> None:
    """A gateway may not make a database its platform's; it says which step is missing, and waits for it."""
    with pytest.raises(StoreUnavailable, match="penstock init"):
        await is_owner(gateway, ("ours",))
    assert await is_owner(controller, ("ours",))
    assert await is_owner(gateway, ("ours",))
    assert await is_owner(gateway, ("new", "ours"))
    assert not await is_owner(gateway, ("theirs",))


async def test_a_gateway_only_reads_what_keys_are_hashed_with(gateway: Database, controller: Database) -> None:
    """The same of the pepper: a process that may write says it, gateways wait for that, and are told of another."""
    await is_owner(controller, ("ours",))
    with pytest.raises(StoreUnavailable, match="penstock init"):
        await is_pepper(gateway, ("pepper",))
    assert await is_pepper(controller, ("pepper",))
    assert await is_pepper(gateway, ("new", "pepper"))
    assert not await is_pepper(gateway, ("new",))


async def test_grants_are_said_again_at_each_release(database: Database, database_dsn: str) -> None:
    """A second run changes nothing, and takes back grants made by hand."""
    for _ in range(2):
        await roles.grant(database, NO_PASSWORDS)
        connection = await asyncpg.connect(database_dsn)
        granted = await connection.fetchval("select has_table_privilege('penstock_gateway', 'ledger', 'update')")
        assert granted is False
        await connection.execute("grant update on ledger to penstock_gateway")
        await connection.close()


async def test_a_password_lets_in_and_the_server_never_sees_it(own_server: EmbeddedPostgres) -> None:
    """A role's password reaches a logging server as a verifier alone, and works at a server that asks for it."""
    own_server.start()
    password = "pass'word"
    async with Database(own_server.dsn) as owner:
        await migrate(owner)
        await owner.rows("alter system set log_statement = 'all'")
        await owner.rows("select pg_reload_conf()")
        async with asyncio.timeout(
            patient(30)
        ):  # each process of the server reads its settings anew when it gets to it
            while (await owner.rows("show log_statement"))[0][0] != "all":  # noqa: ASYNC110  a server's, no task's
                await asyncio.sleep(0.05)
        await roles.grant(owner, {GATEWAY: password})
        path = own_server.data.parent / "logs" / "postgres.log"
        async with asyncio.timeout(patient(30)):  # the server writes its log when it gets to it
            while "alter role penstock_gateway login password" not in (log := path.read_text()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert "SCRAM-SHA-256" in log
        assert "pass'word" not in log
        assert "pass''word" not in log
        (own_server.data / "pg_hba.conf").write_text("local all penstock trust\nlocal all all scram-sha-256\n")
        await owner.rows("select pg_reload_conf()")
    address = with_user(dsn_of(own_server.data), GATEWAY)
    async with asyncio.timeout(patient(30)):
        while await lets_in(own_server, address, "another"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await lets_in(own_server, address, password)


async def lets_in(server: EmbeddedPostgres, address: str, password: str) -> bool:
    """Tell whether the server takes this password."""
    file = server.data.parent / "password"
    file.write_text(password)
    async with Database(with_files(address, password_file=str(file))) as asked:
        try:
            return await asked.rows("select current_user") != []
        except StoreUnavailable:
            return False
