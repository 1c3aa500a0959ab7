"""Names that stand for rules, from the command line to the published table: a real controller on a real Postgres."""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.connectors.postgres.tables import PostgresTables
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import OPERATORS, Role, Tenant
from tests.support.controllers.process import ControlledHome, controlled_home
from tests.support.patience import patient, until
from tests.support.platforms import commands
from tests.support.samples import control_plane as things

pytestmark = pytest.mark.integration
SMALL, BIG = things.version("small"), things.version("big", seed="c")
FILE = f"rules: [{{name: short, to: small, prompt_tokens: 100, price: 0.5}}, {{name: rest, to: {BIG.id}}}]"


class Desk:
    """An operator's place: the command line with an admin key, a controller, and what it publishes."""

    def __init__(self, home: ControlledHome, database: Database, key: str) -> None:
        self.home, self.database, self.key = home, database, key
        self.file = home.root / "rules.yaml"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        told = {"PENSTOCK_HOME": str(self.home.root), "PENSTOCK_KEY": self.key, "PENSTOCK_URL": self.home.address()}
        done = commands.run(["aliases", *words], {**os.environ, **told})
        done.stdout, done.stderr = (re.sub(r"\s+", " ", text) for text in (done.stdout, done.stderr))
        return done

    def put(self, text: str, name: str = "auto") -> subprocess.CompletedProcess[str]:
        self.file.write_text(text)
        return self.run("auto", name, "--file", str(self.file))

    async def table(self) -> RoutingTable:
        return await PostgresTables(self.database).latest()

    async def rules(self) -> list[str]:
        """Return the rules of the newest table."""
        return [rule.name for auto in (await self.table()).autos for rule in auto.rules]

    async def until(self, rules: list[str]) -> None:
        """Wait until the newest table has these rules."""
        async with asyncio.timeout(patient(20.0)):
            while await self.rules() != rules:  # noqa: ASYNC110  what is watched is another process
                await asyncio.sleep(0.05)


@pytest.fixture
async def desk(tmp_path: Path, database_dsn: str) -> AsyncIterator[Desk]:
    """Yield one with two versions, of which an alias leads to the small one."""
    with controlled_home(tmp_path / "home", database_dsn) as home:
        async with Database(database_dsn, max_connections=2) as database:
            registry, tenancy = PostgresRegistry(database), PostgresTenancy(database)
            for version in (SMALL, BIG):
                await registry.add_version(version, "sig", things.act())
            route = things.route("small", SMALL.id)
            await registry.put_routes(((route.alias, route),), things.act())
            await tenancy.add_tenant(Tenant(id=OPERATORS, name="Operators"), things.act())
            pepper = derive(bytes.fromhex("ab" * 32), Purpose.PEPPER)
            secret, key = mint(OPERATORS, pepper=pepper, now=1.0, role=Role.ADMIN)
            await tenancy.add_key(key, things.act())
            home.controller()
            until("it leads", lambda: home.address() != "")
            yield Desk(home, database, secret)


async def test_rules_are_set_shown_published_and_taken_away(desk: Desk) -> None:
    """Each step by the command line, seen in the table that gateways take, and in the audit log."""
    put = desk.put(FILE)
    assert put.returncode == 0, put.stderr
    for word in ("short", "prompts of at most 100 tokens", "at most $0.5", BIG.id, "whatever it is able to"):
        assert word in put.stdout
    await desk.until(["short", "rest"])
    assert {version.id for version in (await desk.table()).versions} == {SMALL.id, BIG.id}
    assert f"by rules: short → small, rest → {BIG.id}" in desk.run("list").stdout
    refused = desk.run("remove", "small")
    assert (refused.returncode, "short of auto" in refused.stderr) == (1, True)
    assert desk.run("auto", "auto", "--remove").returncode == 0
    await desk.until([])
    assert "taken away" in desk.run("auto", "auto").stdout
    assert [act.what for act in await PostgresAudit(desk.database).newest(2)] == ["auto.remove", "auto.put"]


async def test_bad_rules_change_nothing(desk: Desk) -> None:
    """What can't be is said in words, with the remedy, and the rules in force stay."""
    assert desk.put(FILE).returncode == 0
    await desk.until(["short", "rest"])
    many = "".join(f"- {{name: r{n}, to: small}}\n" for n in range(500))
    for text, says in (
        ("rules: [{name: a, to: auto}]", "has rules itself"),
        ("rules: [{name: a, to: gone}]", "no alias and no version"),
        ("rules: [{name: a, to: small, tools: true}]", "fits nothing"),
        ("rules: [{name: a, to: small, price: .nan}]", "not finite"),
        ("rules: [{name: a, to: small, prompt_tokens: many}]", "int"),
        ("rules: [&a {name: a, to: small}, *a]", "refers to a part"),
        (f"rules:\n{many}", "1 to 16 rules"),
        (f"rules:\n{many * 6}", "64 KiB"),
    ):
        done = desk.put(text)
        assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (1, True, False), done.stderr
    assert desk.put(FILE, "small").returncode == 1
    assert await desk.rules() == ["short", "rest"]
