"""Administrative acts on a real Postgres: whole or not at all, and one after the other."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, count
from typing import Any

import httpx
import msgspec
import pytest

from penstock.connectors.postgres.database import Database, Session
from penstock.control.api.app import ADMIN
from penstock.control.publish.build import build
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.fleet.versions import FleetView
from penstock.domain.ids import VersionId
from penstock.domain.tenancy.tenant import Role
from penstock.scaling.bounds import Bounds
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import new_model
from tests.support.controllers.on_postgres import StoredRoom
from tests.support.controllers.rollouts import SHARED, WHY
from tests.support.samples import control_plane as things
from tests.support.samples.curves import curve
from tests.support.samples.routes import CONTROLLER

pytestmark = pytest.mark.integration
Body = dict[str, Any] | None
Act = tuple[str, str, Body]
"""Method, address, body."""
_TABLES = "select tablename from pg_tables where schemaname = 'public' order by 1"
UNKEPT = {"worker_lease", "schema_migration"}


@dataclass(kw_only=True)
class World:
    """A controller with one of everything, and an operator of it."""

    room: StoredRoom
    database: Database
    operator: httpx.AsyncClient
    named: dict[str, str] = field(default_factory=dict)

    async def call(self, method: str, path: str, body: Body = None) -> httpx.Response:
        return await self.operator.request(method, f"{ADMIN}{path}", json=body)

    async def done(self, method: str, path: str, body: Body = None) -> Any:  # noqa: ANN401  JSON
        answer = await self.call(method, path, body)
        assert answer.status_code < 300, (path, answer.text)
        return answer.json()

    async def version(self, seed: str) -> str:
        """Register and deploy a version, of which a worker serves."""
        made = await self.done("POST", "/models", new_model(things.manifest(seed=seed)))
        version = str(made["id"])
        await self.done("PUT", f"/deployments/{version}", {"replicas": 1})
        self.room.heartbeats.take(things.report(f"w-{seed}", VersionId(version)))
        return version

    async def publish(self) -> None:
        """Publish a table as a tick does."""
        control = self.room.control
        catalogue = await control.registry.store.catalogue()
        latest = await control.tables.latest()
        now = self.room.clock.now()
        view, seen = FleetView(since=now), await control.heartbeats.seen()
        await control.tables.publish(build(catalogue, seen, latest, now, view, silence_s=5.0))

    async def everything(self) -> dict[str, list[str]]:
        """Return every row of every table, as text."""
        tables = [row["tablename"] for row in await self.database.rows(_TABLES)]
        return {
            table: sorted(str(tuple(row)) for row in await self.database.rows(f"select * from {table}"))  # noqa: S608
            for table in tables
            if table not in UNKEPT
        }


@pytest.fixture
async def world(database: Database, clock: ManualClock) -> AsyncIterator[World]:
    room = StoredRoom(clock, database, bounds=(Bounds(versions="*", least=1, most=4),))
    async with room.client(await room.key(Role.ADMIN)) as operator:
        yield await _filled(World(room=room, database=database, operator=operator))


async def _filled(world: World) -> World:
    a, b = await world.version("a"), await world.version("b")
    shares = {"shares": [{"version": a, "weight": 10_000}]}
    for alias in ("chat", "spare", "moved"):
        await world.done("PUT", f"/aliases/{alias}", shares)
    await world.done("PUT", "/autos/auto", {"rules": [{"name": "all", "to": "chat"}]})
    await world.publish()
    await world.done("PUT", "/aliases/chat", {"shares": [{"version": b, "weight": 10_000}]})
    await world.done("PUT", "/autos/auto", {"rules": [{"name": "rest", "to": "chat"}]})
    await world.publish()
    await world.done("POST", "/orgs", {"id": "retail"})
    rollout = await world.done("POST", "/rollouts", {"alias": "moved", "candidate": b, "stages": SHARED})
    key = await world.done("POST", "/keys", {"tenant": "acme"})
    old = await world.done("POST", "/keys", {"tenant": "acme"})
    world.named |= {"a": a, "b": b, "rollout": rollout["id"], "key": key["id"], "old": old["id"], "worker": "w-a"}
    return world


def acts(world: World) -> list[tuple[str, str, str, Body]]:
    """Return a call of each route that may change something: method, path of the route, address, body."""
    known, led = world.named, {"shares": [{"version": world.named["a"], "weight": 10_000}]}
    deployment, key = f"/deployments/{known['a']}", f"/keys/{known['key']}"
    override = f"/scale/{known['a']}/override"
    return [
        ("POST", "/models", "/models", new_model(things.manifest(seed="d")) | {"tenants": ["acme"]}),
        ("PUT", "/aliases/{alias}", "/aliases/new", led),
        ("POST", "/rollout-plans", "/rollout-plans", {"alias": "spare", "candidate": known["b"]}),
        ("POST", "/rollouts/{rollout}/{move}", f"/rollouts/{known['rollout']}/hold", WHY),
        ("PUT", "/deployments/{version}", deployment, {"replicas": 2}),
        ("PUT", "/deployments/{version}/pin", f"{deployment}/pin", None),
        ("DELETE", "/deployments/{version}/pin", f"{deployment}/pin", None),
        ("POST", "/deployments/{version}/restart", f"{deployment}/restart", None),
        ("POST", "/workers/{worker}/restart", f"/workers/{known['worker']}/restart", None),
        ("PUT", "/scale/{version}/override", override, {"workers": 3, "for_s": 3600, "reason": "a launch"}),
        ("DELETE", "/scale/{version}/override", override, None),
        ("PUT", "/batch-work/pause", "/batch-work/pause", None),
        ("DELETE", "/batch-work/pause", "/batch-work/pause", None),
        ("POST", "/batch-work/dead/replay", "/batch-work/dead/replay", {}),
        ("POST", "/privacy/rewrap", "/privacy/rewrap", None),
        ("POST", "/tenants/{tenant}/privacy/rotate", "/tenants/acme/privacy/rotate", None),
        ("POST", "/tenants/{tenant}/privacy/delete", "/tenants/acme/privacy/delete", {"user": "u"}),
        ("POST", "/tenants/{tenant}/privacy/delete", "/tenants/acme/privacy/delete", {"everything": True}),
        ("POST", "/orgs", "/orgs", {"id": "more"}),
        ("PATCH", "/orgs/{org}/plan", "/orgs/retail/plan", {"requests_per_min": 5}),
        ("POST", "/tenants", "/tenants", {"id": "beta"}),
        ("PATCH", "/tenants/{tenant}/plan", "/tenants/acme/plan", {"weight": 3}),
        ("PUT", "/tenants/{tenant}/org", "/tenants/acme/org", {"org": "retail"}),
        ("PATCH", "/budgets/{kind}/{name}", "/budgets/tenant/acme", {"spend_per_day": 100}),
        ("POST", "/budgets/reconcile", "/budgets/reconcile", None),
        ("POST", "/keys", "/keys", {"tenant": "acme"}),
        ("PATCH", "/keys/{key}/plan", f"{key}/plan", {"max_concurrent": 2}),
        ("POST", "/keys/{key}/rotate", f"{key}/rotate", {}),
        ("POST", "/keys/{key}/revoke", f"/keys/{known['old']}/revoke", None),
        ("POST", "/rollouts/{rollout}/{move}", f"/rollouts/{known['rollout']}/abort", WHY),
        ("DELETE", "/aliases/{alias}", "/aliases/new", None),
        ("PUT", "/models/{version}/curves", f"/models/{known['a']}/curves", {"curve": msgspec.to_builtins(curve())}),
        ("PUT", "/models/{version}/tenants", f"/models/{known['a']}/tenants", {"tenants": None}),
        ("POST", "/table/rollback", "/table/rollback", {"number": 1}),
        ("PUT", "/autos/{alias}", "/autos/more", {"rules": [{"name": "all", "to": "chat"}]}),
        ("DELETE", "/autos/{alias}", "/autos/auto", None),
        ("POST", "/rollouts", "/rollouts", {"alias": "spare", "candidate": known["b"], "stages": SHARED}),
        ("POST", "/safety/packs", "/safety/packs", {"pack": "{id: names, version: 1}"}),
        ("POST", "/safety/packs", "/safety/packs", {"pack": "{id: names, version: 2}"}),
        ("POST", "/safety/packs/{pack}/rollback", "/safety/packs/names/rollback", {}),
        ("PUT", "/safety/floor", "/safety/floor", {"packs": ["names"]}),
        ("POST", "/safety/matches", "/safety/matches", {"tenant": "acme"}),
    ]


async def cut_off(world: World, at: int, monkeypatch: pytest.MonkeyPatch, call: Act) -> httpx.Response | None:
    """Call while the database goes away before the act's statement of this number; the answer if it has fewer."""
    run: list[str] = []

    def watched(real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def statement(self: Session, sql: str, *arguments: object) -> Any:  # noqa: ANN401
            run.append(sql)
            if len(run) == at:
                raise StoreUnavailable("the database went away")
            return await real(self, sql, *arguments)

        return statement

    with monkeypatch.context() as patched:
        for name in ("rows", "row", "run"):
            patched.setattr(Session, name, watched(getattr(Session, name)))
        answer = await world.call(*call)
    if len(run) < at:
        return answer
    assert answer.status_code == 503, (call, run[-1], answer.text)
    return None


async def test_an_act_is_whole_or_not_at_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every act, cut off before each of its statements, nothing stays: no state, no route, no audit row."""
    steps = 0
    for method, route, path, body in acts(world):
        before, at, call = await world.everything(), 1, (method, path, body)
        while (answer := await cut_off(world, at, monkeypatch, call)) is None:
            assert await world.everything() == before, (method, route, at)
            at, steps = at + 1, steps + 1
        assert answer.status_code < 300, (method, route, answer.text)
        if route != "/rollout-plans":
            assert len((await world.everything())["audit_event"]) > len(before["audit_event"]), route
    assert steps > 60
    called = {(method, f"{ADMIN}{route}") for method, route, *_ in acts(world)}
    changing = {one for one in CONTROLLER if one[0] != "GET" and one[1].startswith(ADMIN)}
    assert called == changing, "an act of the operators' API is not walked"


async def test_a_refused_roll_back_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes, rules and audit rows are as before if the table can't be published."""

    async def refused(*_: object) -> None:
        raise StoreUnavailable("away")

    before = await world.everything()
    monkeypatch.setattr(type(world.room.tables), "publish", refused)
    assert (await world.call("POST", "/table/rollback", {"number": 1})).status_code == 503
    assert await world.everything() == before


async def test_a_roll_back_beside_ticks_is_published(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that a tick publishes meanwhile does not undo it."""
    real, ticked = world.room.tables.publish, list[int]()

    async def first(table: RoutingTable) -> None:
        if not ticked:
            ticked.append(table.number)
            async with Database(world.database._way.dsn) as beside:
                await beside.row(
                    "insert into routing_table select $1::bigint, "
                    "jsonb_set(body, '{number}', to_jsonb($1::bigint)), made_at from routing_table "
                    "limit 1 returning number",
                    table.number,
                )
        await real(table)

    monkeypatch.setattr(world.room.tables, "publish", first)
    answer = await world.call("POST", "/table/rollback", {"number": 1})
    assert (answer.status_code, answer.json().get("number")) == (200, ticked[0] + 1), answer.text


# -- pairs -----------------------------------------------------------------------------------------------------------

GROUPS: dict[str, list[Act]] = {
    "alias": [
        ("PUT", "/aliases/{name}", {"shares": [{"version": "{a}", "weight": 10_000}]}),
        ("PUT", "/aliases/{name}", {"shares": [{"version": "{b}", "weight": 10_000}]}),
        ("PUT", "/autos/{name}", {"rules": [{"name": "all", "to": "chat"}]}),
        ("DELETE", "/aliases/{name}", None),
        ("DELETE", "/autos/{name}", None),
        ("POST", "/rollouts", {"alias": "{name}", "candidate": "{b}", "stages": SHARED}),
    ],
    "key": [
        ("POST", "/keys/{key}/rotate", {"overlap_s": 0}),
        ("POST", "/keys/{key}/rotate", {"overlap_s": 60}),
        ("POST", "/keys/{key}/revoke", None),
        ("PATCH", "/keys/{key}/plan", {"max_concurrent": 2}),
    ],
    "tenant": [
        ("POST", "/tenants", {"id": "{name}"}),
        ("PATCH", "/tenants/{name}/plan", {"weight": 3}),
        ("PUT", "/tenants/{name}/org", {"org": "retail"}),
        ("POST", "/keys", {"tenant": "{name}"}),
    ],
    "org": [("POST", "/orgs", {"id": "{name}"}), ("PATCH", "/orgs/{name}/plan", {"requests_per_min": 3})],
    "deployment": [
        ("PUT", "/deployments/{version}", {"replicas": 0}),
        ("PUT", "/deployments/{version}", {"replicas": 3}),
        ("PUT", "/deployments/{version}/pin", None),
        ("DELETE", "/deployments/{version}/pin", None),
        ("POST", "/deployments/{version}/restart", None),
        ("PUT", "/models/{version}/tenants", {"tenants": ["acme"]}),
    ],
}
PAIRS = [(group, *pair) for group, of in GROUPS.items() for pair in combinations_with_replacement(range(len(of)), 2)]
_NUMBERS = count()
BEGUN = ("alias", "deployment", "key")
"""Groups whose pairs are tried on a name that exists, too."""


def put_in(value: Any, named: dict[str, str]) -> Any:  # noqa: ANN401  JSON
    if isinstance(value, str):
        return re.sub(r"{(\w+)}", lambda found: named[found[1]], value)
    if isinstance(value, dict):
        return {name: put_in(one, named) for name, one in value.items()}
    return [put_in(one, named) for one in value] if isinstance(value, list) else value


async def fresh(world: World, group: str, *, begun: bool) -> dict[str, str]:
    """Return names of things that no other try has touched."""
    name = f"n{next(_NUMBERS)}"
    named = world.named | {"name": name}
    if group == "key":
        named["key"] = (await world.done("POST", "/keys", {"tenant": "acme"}))["id"]
    if group == "deployment":
        made = new_model(things.manifest(name))
        named["version"] = (await world.done("POST", "/models", made))["id"]
        if begun:
            await world.done("PUT", f"/deployments/{named['version']}", {"replicas": 1})
    if group == "alias" and begun:
        await world.done("PUT", f"/aliases/{name}", {"shares": [{"version": world.named["a"], "weight": 10_000}]})
    return named


async def outcome(world: World, group: str, named: dict[str, str], statuses: list[int]) -> object:
    """Return what may be seen of the things of these names, without ids and times."""
    name, sql = named["name"], world.database.rows
    if group == "alias":
        routes = {one["alias"]: one["shares"] for one in (await world.done("GET", "/aliases"))["aliases"]}
        autos = {one["alias"] for one in (await world.done("GET", "/autos"))["autos"]}
        return statuses, routes.get(name), name in autos
    if group == "key":
        shown = {one["id"]: one for one in (await world.done("GET", "/keys"))["keys"]}
        key = shown[named["key"]]
        heirs = await sql("select successor from api_key where id = $1 and successor is not null", named["key"])
        bounds = [shown[row["successor"]]["plan"]["max_concurrent"] for row in heirs]
        ended = key["expires_at"] - things.NOW if key["expires_at"] else None
        return statuses, bool(key["revoked_at"]), ended, key["plan"]["max_concurrent"], bounds
    if group in {"tenant", "org"}:
        found = [one for one in (await world.done("GET", f"/{group}s"))[f"{group}s"] if one["id"] == name]
        keys = [one for one in (await world.done("GET", "/keys"))["keys"] if one["tenant"] == name]
        return statuses, found and (found[0]["plan"], found[0].get("org")), len(keys)
    found = (await world.done("GET", "/deployments"))["deployments"]
    mine = [{**one, "version": ""} for one in found if one["version"] == named["version"]]
    owners = await sql("select tenants from version_tenants where version = $1", named["version"])
    return statuses, mine, len(owners)


async def tried(world: World, group: str, order: tuple[Act, Act], *, at_once: bool, begun: bool) -> object:
    """Return the outcome of two acts on one thing."""
    named = await fresh(world, group, begun=begun)
    calls = [world.call(method, put_in(path, named), put_in(body, named)) for method, path, body in order]
    answers = await asyncio.gather(*calls) if at_once else [await call for call in calls]
    return await outcome(world, group, named, [answer.status_code for answer in answers])


def swapped(told: object) -> object:
    """Return the outcome with the statuses of the acts in the other order."""
    assert isinstance(told, tuple)
    return told[0][::-1], *told[1:]


async def test_acts_on_one_name_come_one_after_the_other(world: World) -> None:
    """Of every pair of acts on one name, asked at once, the result is that of one order or of the other."""
    for group, first, second in PAIRS:
        pair = GROUPS[group][first], GROUPS[group][second]
        for begun in {False, group in BEGUN}:
            serial = [
                await tried(world, group, pair, at_once=False, begun=begun),
                swapped(await tried(world, group, pair[::-1], at_once=False, begun=begun)),
            ]
            for _ in range(2):
                found = await tried(world, group, pair, at_once=True, begun=begun)
                assert found in serial, (group, pair, begun)


async def test_twenty_rotations_at_once_make_one_successor(world: World) -> None:
    """The others hear which one it is."""
    key = world.named["key"]
    answers = await asyncio.gather(*(world.call("POST", f"/keys/{key}/rotate", {"overlap_s": 60}) for _ in range(20)))
    assert sorted(one.status_code for one in answers) == [201, *[409] * 19]
    (new,) = [one.json()["id"] for one in answers if one.status_code == 201]
    assert all(new in one.json()["error"]["message"] for one in answers if one.status_code == 409)
