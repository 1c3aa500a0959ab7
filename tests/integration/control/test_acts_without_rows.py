"""No act without its row: each write of the operators' API, each refusal of authority, each command.

Writes are walked with their rows in `test_acts.py`, cut off before each statement: a row is never without its act.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from penstock.apps.stores import deliver_spool
from penstock.cli import application
from penstock.connectors.postgres import roles
from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.migrations import Migration, known, migrate
from penstock.connectors.postgres.owner import is_owner, is_pepper
from penstock.control.api.app import ADMIN, make_app
from penstock.domain.clock import SystemClock
from penstock.domain.tenancy.audit import Selection
from penstock.domain.tenancy.tenant import Role
from penstock.settings import Settings
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.controllers.on_postgres import StoredRoom
from tests.support.samples.routes import GATEWAY

app = application()

pytestmark = pytest.mark.integration
ASKS = "a command over the operators' API, whose writes are walked"
TENANTS = "a command over the gateway's API: a tenant's own work, and no act of administration"
ENDPOINTS = "a command over the gateway's API, whose writes have rows: `test_endpoint_store.py`"
LOCAL = "changes no store of a platform"
DIRECT = "writes to the database itself: a test below"
_BY_KIND = {
    ASKS: "audit aliases budgets keys models orgs privacy rollout safety scale tenants usage import",
    TENANTS: "jobs batches batch files ask embed classify",
    ENDPOINTS: "webhooks",
    LOCAL: "bench config contract diagnose down explain logs plan restart slo status version worker-key worker gateway "
    "jobs-runner",
    DIRECT: "init up controller spool",
}
_OVER_AN_API = (ASKS, TENANTS, ENDPOINTS)
COMMANDS = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}
"""Every command by what it does to a platform's stores."""
REACHING = {
    "audit": "reads what it verifies",
    "models": "writes artifacts, which the operators' API registers",
    "usage": "counts rows of a spool",
}
"""Commands over an API with a module that may reach a store itself, and what for."""
_STORES = re.compile(r"(?:from|import) penstock\.(?:apps|connectors|packaging)|database_dsn")
_ENDPOINT, _DELIVERIES = "/v1/webhooks/{webhook}", "/v1/webhooks/{webhook}/deliveries/{delivery}/replay"
ENDPOINT_ACTS = {("POST", "/v1/webhooks"), ("POST", _ENDPOINT), ("DELETE", _ENDPOINT), ("POST", f"{_ENDPOINT}/rotate")}
ENDPOINT_WORK = {("POST", f"{_ENDPOINT}/test"), ("POST", f"{_ENDPOINT}/replay"), ("POST", _DELIVERIES)}


def test_every_command_is_known() -> None:
    """A new command can't appear without a word on its acts."""
    command: Any = get_command(app)
    assert set(command.commands) == set(COMMANDS)


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401  click's own
    """Yield each command that runs, with its whole name."""
    if not hasattr(command, "commands"):
        yield name, command.callback
        return
    for word, one in command.commands.items():
        yield from leaves(one, f"{name} {word}".strip())


def test_a_command_over_an_api_reaches_no_store_itself() -> None:
    """Whichever is added to a group: what it changes, it changes over routes that are walked."""
    of_api = [(name, run) for name, run in leaves(get_command(app)) if COMMANDS[name.split()[0]] in _OVER_AN_API]
    assert {"safety events", "scale status", "webhooks rotate", "tenants plan"} <= {name for name, _ in of_api}
    modules = {(name.split()[0], sys.modules[inspect.unwrap(run).__module__]) for name, run in of_api}
    assert {group for group, module in modules if _STORES.search(inspect.getsource(module))} == set(REACHING)


def test_each_change_of_an_endpoint_is_known() -> None:
    """An act with a row, or a tenant's own work."""
    changes = {route for route in GATEWAY if route[1].startswith("/v1/webhooks") and route[0] != "GET"}
    assert changes == ENDPOINT_ACTS | ENDPOINT_WORK


async def acts(database: Database) -> list[str]:
    return [act.what for act in await PostgresAudit(database).newest(999)]


async def test_migrations_grants_and_keys_have_rows(database: Database) -> None:
    """Of `init`, `up` and controllers: once per act, none if nothing changed, none that names a secret."""
    more = Migration(number=len(known()) + 1, name="more", sql="create table more (a text)")
    for _ in range(2):
        await migrate(database, (*known(), more))
        for keys in (("a" * 64,), ("b" * 64, "a" * 64)):
            await is_owner(database, keys)
            await is_pepper(database, keys)
    assert sorted(await acts(database)) == sorted(
        [
            *("database.migrate", "platform.claim", "platform.key.rotate"),
            *("platform.pepper.set", "platform.pepper.rotate"),
        ]
    )
    await roles.grant(database, {roles.GATEWAY: "", roles.CONTROLLER: ""})
    newest = (await PostgresAudit(database).newest(1))[0]
    assert (newest.what, newest.target) == ("database.grant", "penstock_controller penstock_gateway")
    assert "a" * 13 not in str(await PostgresAudit(database).newest(99))


async def test_delivering_a_spool_by_hand_has_a_row(database_dsn: str, database: Database, tmp_path: Path) -> None:
    """The row is written before the first of the spool."""
    (tmp_path / "spool").mkdir()
    settings = Settings(home=tmp_path, database_url=database_dsn)
    await deliver_spool(settings, tmp_path / "spool", SystemClock())
    assert await acts(database) == ["spool.deliver"]


def writes() -> Iterator[tuple[str, str]]:
    """Yield each method and path of the operators' API as its OpenAPI document has them."""
    document = make_app(Room(ManualClock()).control).openapi()
    for path, operations in document["paths"].items():
        if path.startswith(ADMIN):
            yield from ((method.upper(), path) for method in operations)


async def test_each_refusal_of_authority_has_a_row(database: Database, clock: ManualClock) -> None:
    """Without a key, and with the key of another tenant's caller: who, which route, and which error, and no more."""
    room = StoredRoom(clock, database)
    async with room.client("") as nobody, room.client(secret := await room.key(Role.INFER)) as caller:
        for method, path in writes():
            for client, status in ((nobody, 401), (caller, 403)):
                before = len(await acts(database))
                answer = await client.request(method, path, json={})
                assert answer.status_code == status, (method, path, answer.text)
                rows = await PostgresAudit(database).newest(1)
                assert len(await acts(database)) == before + 1, (method, path)
                assert (rows[0].what, rows[0].target) == ("access.refused", f"{method} {path}")
        assert secret not in str(await PostgresAudit(database).newest(999))


async def test_repeated_refusals_are_counted(database: Database, clock: ManualClock) -> None:
    """A thousand wrong keys within a minute are two rows."""
    room = StoredRoom(clock, database)
    async with room.client("psk_wrong") as nobody:
        for _ in range(1000):
            await nobody.get(f"{ADMIN}/keys")
        clock.advance(60.0)
        await room.control.note_repeats()
    found = await PostgresAudit(database).newest(99, of=Selection(what="access"))
    assert [act.detail for act in found] == ["invalid_api_key, 999 more times", "invalid_api_key"]
