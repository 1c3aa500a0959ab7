"""Who may call what: every route of the controller against every role, of the operators and of two tenants.

The routes are read from the application; one that is missing in the table fails the first test.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from fastapi.routing import APIRoute

from penstock.control.api.app import ADMIN, make_app
from penstock.control.api.refusals import WHAT
from penstock.domain.fleet.worker import PhaseTiming, RefusedAdapter, WorkerState
from penstock.domain.ids import KeyId, OrgId, RequestId, TenantId, VersionId, WorkerId
from penstock.domain.models.steps import StepModel
from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.serving.report import Load
from penstock.domain.tenancy.keys import key_id_of
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.tenant import OPERATORS, Org, Plan, Priority, Role, ScopeId, ScopeKind
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room, bearer_of
from tests.support.samples import control_plane as things
from tests.support.samples.curves import curve
from tests.support.samples.routes import CONTROLLER, OF_A_TENANT, For, Route

MINE, OTHERS = "alice", "bob"
WORKER = WorkerId("w1")


PLAN = Plan(spend_per_day=MicroUsd(100))
GUARDED = sorted(route for route, who in CONTROLLER.items() if route[1].startswith(ADMIN))
BODIES: Mapping[Route, dict[str, Any]] = {
    ("PATCH", f"{ADMIN}/keys/{{key}}/plan"): {"max_concurrent": 1},
    ("POST", f"{ADMIN}/keys/{{key}}/rotate"): {"overlap_s": 0},
}


@dataclass(frozen=True, kw_only=True)
class Town:
    """A controller with two customers that have keys, rows, budgets and a history; secrets by tenant and role."""

    room: Room
    secrets: Mapping[tuple[str, Role], str]
    keys: Mapping[str, KeyId]

    def address(self, path: str, tenant: str) -> str:
        """Return the address with this tenant's things in it."""
        named = {"tenant": tenant, "key": self.keys[tenant], "kind": "tenant", "name": tenant}
        return re.sub(r"\{(\w+)\}", lambda match: named.get(match[1], "none"), path)

    def body(self, route: Route, tenant: str) -> dict[str, Any]:
        """Return a body that would do something to this tenant."""
        return {"tenant": tenant} if route == ("POST", f"{ADMIN}/keys") else BODIES.get(route, {})

    async def state(self) -> object:
        """Return everything that a call may change, but for the rows of refused ones."""
        room = self.room
        return (
            await room.control.ring(),
            await room.registry.routes(),
            await room.registry.deployments(),
            [act for act in await room.audit.newest(1000) if act.what != WHAT],
        )


async def town(clock: ManualClock) -> Town:
    room, secrets, keys = Room(clock), {}, {}
    for tenant in (MINE, OTHERS, OPERATORS):
        for role in Role:
            secrets[tenant, role] = await room.key(role, tenant=tenant)
        keys[tenant] = key = KeyId(key_id_of(await room.key(Role.INFER, tenant=tenant)) or "")
        noted = replace(things.act("key.mint", target=tenant), tenant=TenantId(tenant))
        for kind, name in ((ScopeKind.TENANT, tenant), (ScopeKind.KEY, key)):
            await room.tenancy.change_plan(ScopeId(kind=kind, id=name), lambda _: PLAN, noted)
        await room.ledger.append([row(tenant, key, clock.now())])
    await room.tenancy.add_org(Org(id=OrgId("none"), name="none"), things.act())
    return Town(room=room, secrets=secrets, keys=keys)


def row(tenant: str, key: KeyId, now: float) -> LedgerRow:
    return LedgerRow(
        request=RequestId(f"request-of-{tenant}"),
        tenant=TenantId(tenant),
        key=key,
        version=VersionId("m@1"),
        digest="d",
        api="/v1/chat/completions",
        priority=Priority.STANDARD,
        outcome=Outcome.OK,
        prompt_tokens=1,
        cached_tokens=0,
        output_tokens=1,
        exact=True,
        gpu_s=0.1,
        cost=MicroUsd(7),
        opened_at=now - 2,
        closed_at=now - 1,
    )


def routes() -> set[Route]:
    """Return method and path of every route, read from the application itself."""
    found = make_app(Room(ManualClock()).control).routes
    return {(method, one.path) for one in found if isinstance(one, APIRoute) for method in one.methods}


def may(who: For, tenant: str, role: Role, about: str) -> bool:
    """Return whether a key of this tenant and role gets through to a route about some tenant."""
    reads = who in (For.READERS, For.OVERSEERS) and role is Role.AUDITOR
    is_others = who in (For.OPERATORS, For.OVERSEERS)
    return (reads or role is Role.ADMIN) and (tenant == OPERATORS or (not is_others and tenant == about))


def test_every_route_is_in_the_table() -> None:
    """A new route fails here until somebody says who may call it."""
    assert routes() == set(CONTROLLER)


@pytest.mark.parametrize("route", GUARDED, ids=" ".join)
@pytest.mark.parametrize("about", [MINE, OTHERS])
async def test_a_role_holds_in_its_own_tenant(clock: ManualClock, route: Route, about: str) -> None:
    """Finding 14: every role of every tenant on every route gets what the table says, and else changes nothing."""
    here, (method, path) = await town(clock), route
    named = route in OF_A_TENANT or "{key}" in path
    for tenant, role in list(here.secrets):
        before = await here.state()
        async with here.room.client(here.secrets[tenant, role]) as client:
            answer = await client.request(method, here.address(path, about), json=here.body(route, about))
        status = answer.status_code
        if may(CONTROLLER[route], tenant, role, about if named else tenant):
            assert status not in {401, 403, 405, 500}, (tenant, role, answer.text)
            here = here if method == "GET" else await town(clock)
        else:
            hidden = "{key}" in path and role is Role.ADMIN and tenant != OPERATORS
            assert status == (400 if hidden and CONTROLLER[route] is For.MANAGERS else 403), (tenant, role, answer.text)
            assert await here.state() == before


@pytest.mark.parametrize("route", [one for one in GUARDED if CONTROLLER[one] is For.READERS], ids=" ".join)
@pytest.mark.parametrize("role", [Role.ADMIN, Role.AUDITOR])
async def test_a_tenant_reads_of_itself_alone(clock: ManualClock, route: Route, role: Role) -> None:
    """Finding 14: what a tenant's key may read tells of it, and not a word of another tenant or of the operators."""
    here, (method, path) = await town(clock), route
    is_empty = "/safety/" in path  # nobody was filtered here
    for tenant, strangers in ((MINE, (OTHERS, OPERATORS)), (OTHERS, (MINE, OPERATORS))):
        async with here.room.client(here.secrets[tenant, role]) as client:
            answer = await client.request(method, here.address(path, tenant))
        assert answer.status_code == 200
        assert is_empty or tenant in answer.text or here.keys[tenant] in answer.text
        for stranger in strangers:
            assert stranger not in answer.text
            assert here.keys[stranger] not in answer.text
    async with here.room.client(here.secrets[OPERATORS, role]) as client:
        answer = await client.request(method, here.address(path, MINE))
    assert (OTHERS in answer.text) is not ("{tenant}" in path or is_empty)


@pytest.mark.parametrize("path", [f"{ADMIN}/usage/rows?tenant=", f"{ADMIN}/usage/", f"{ADMIN}/tenants/"])
@pytest.mark.parametrize("other", [OTHERS, "nobody"])
async def test_another_tenant_is_as_one_that_does_not_exist(clock: ManualClock, path: str, other: str) -> None:
    """Finding 14: naming another tenant is refused in the same words as naming none."""
    here = await town(clock)
    async with here.room.client(here.secrets[MINE, Role.AUDITOR]) as client:
        answer = await client.get(path + other)
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, "this key is of another tenant")


async def test_a_key_that_others_have_is_as_one_that_does_not_exist(clock: ManualClock) -> None:
    """Finding 14: a tenant's admin can't find out which keys there are."""
    here = await town(clock)
    async with here.room.client(here.secrets[MINE, Role.ADMIN]) as client:
        told = [await client.post(f"{ADMIN}/keys/{key}/revoke") for key in (here.keys[OTHERS], "nosuchkey")]
    assert told[0].json()["error"]["message"] == told[1].json()["error"]["message"]
    assert [answer.status_code for answer in told] == [400, 400]


async def test_a_scoped_admin_key_gives_no_wider_ones(clock: ManualClock) -> None:
    """A key that is scoped to models makes keys for some of these models and not for all."""
    here = await town(clock)
    async with here.room.client(here.secrets[OPERATORS, Role.ADMIN]) as client:
        body = {"tenant": MINE, "role": "admin", "models": ["a", "b"]}
        scoped = (await client.post(f"{ADMIN}/keys", json=body)).json()["secret"]
    async with here.room.client(scoped) as client:
        asked = [{"models": ["a"]}, {"models": ["a", "c"]}, {}]
        made = [await client.post(f"{ADMIN}/keys", json={"tenant": MINE, **one}) for one in asked]
    assert [answer.status_code for answer in made] == [201, 403, 403]


@pytest.mark.parametrize("route", GUARDED, ids=" ".join)
async def test_nothing_gets_through_without_a_valid_key(clock: ManualClock, route: Route) -> None:
    """Without a key, with a forged, a revoked, an expired or the workers' one: 401."""
    here, (method, path) = await town(clock), route
    forged = here.secrets[OPERATORS, Role.ADMIN]
    forged = forged[:-1] + ("x" if forged[-1] != "x" else "y")
    revoked = await here.room.key(Role.ADMIN)
    await here.room.tenancy.revoke_key(KeyId(key_id_of(revoked) or ""), things.act(at=clock.now()))
    expired = await here.room.key(Role.ADMIN, expires_in_s=5.0)
    clock.advance(6.0)
    for credential in ("", forged, revoked, expired, bearer_of(WORKER)):
        async with here.room.client(credential) as client:
            answer = await client.request(method, here.address(path, MINE), json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("route", sorted(one for one, who in CONTROLLER.items() if who is For.WORKERS), ids=" ".join)
async def test_a_workers_route_wants_the_workers_credential(clock: ManualClock, route: Route) -> None:
    """Not even an admin key reports heartbeats."""
    room, (method, path) = Room(clock), route
    for credential in ("", "x" * 64, await room.key(Role.ADMIN), bearer_of("w2"), bearer_of(WORKER, "other@1")):
        async with room.client(credential, worker=WORKER) as client:
            assert (await client.request(method, path, json={})).status_code == 401
    async with room.client(bearer_of(WORKER)) as client:
        assert (await client.request(method, path, json={})).status_code == 401
    async with room.client(bearer_of(WORKER), worker=WORKER) as client:
        assert (await client.request(method, path, json={})).status_code in {400, 403}


async def test_a_worker_reports_for_itself_and_its_version_alone(clock: ManualClock) -> None:
    """One that was broken into takes no place in the routing table but its own, and so no prompts of other models."""
    room = Room(clock)
    async with room.client(bearer_of(WORKER), worker=WORKER) as client:
        for name, version, status in (("w2", things.TINY, 403), (WORKER, "other@1", 403), (WORKER, things.TINY, 200)):
            body = msgspec.json.encode(things.report(name, VersionId(version)))
            assert (await client.post("/internal/workers/heartbeat", content=body)).status_code == status
    assert [seen.report.worker for seen in await room.heartbeats.seen()] == [WORKER]


async def test_a_worker_reports_an_address_of_its_own_alone(clock: ManualClock) -> None:
    """A stolen worker's key: gateways are sent to no other host, above all not to a cloud's metadata (SSRF)."""
    room = Room(clock)
    async with room.client(bearer_of(WORKER), worker=WORKER) as client:
        for url, status in (("http://169.254.169.254:80", 403), ("http://0.0.0.0:7", 200)):
            body = msgspec.json.encode(things.report(WORKER, things.TINY, url=url))
            assert (await client.post("/internal/workers/heartbeat", content=body)).status_code == status
    assert [seen.report.url for seen in await room.heartbeats.seen()] == ["http://127.0.0.1:7"]


@pytest.mark.parametrize("path", sorted(path for (_, path), who in CONTROLLER.items() if who is For.ANYBODY))
async def test_health_is_open(clock: ManualClock, path: str) -> None:
    """The health addresses answer anybody, and show no tenant."""
    room = Room(clock)
    await room.key(Role.INFER, tenant="secretive")
    async with room.client() as client:
        answer = await client.get(path)
    assert answer.status_code == (503 if path == "/readyz" else 200)
    assert "secretive" not in answer.text


async def test_an_unknown_address_has_our_error_shape(clock: ManualClock) -> None:
    """A wrong path and a wrong method answer with the platform's errors."""
    async with Room(clock).client() as client:
        missing, wrong = await client.get("/nothing"), await client.put("/healthz")
        several = await client.patch("/admin/v1/batch-work/pause")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "route_not_found")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert (wrong.headers["allow"], several.headers["allow"]) == ("GET", "DELETE, GET, PUT")


NO_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "-1", "9007199254740992")


@pytest.mark.parametrize("value", NO_NUMBERS)
async def test_a_report_that_no_gateway_could_read_is_refused(clock: ManualClock, value: str) -> None:
    """Every number of a heartbeat: it would stand in the routing table, which all gateways would refuse."""
    room = Room(clock)
    whole = msgspec.json.encode(things.report(WORKER, things.TINY)).decode()
    numbers = list(re.finditer(r'(?<=":)-?\d[\d.e+-]*', whole))
    assert len(numbers) > 5
    async with room.client(bearer_of(WORKER), worker=WORKER) as client:
        for found in numbers:
            body = whole[: found.start()] + value + whole[found.end() :]
            assert (await client.post("/internal/workers/heartbeat", content=body)).status_code == 400
    assert not await room.heartbeats.seen()


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": StepModel(fixed_s=1.0, token_s=-1.0)},
        {"model": StepModel(fixed_s=1.0, token_s=1e6)},
        {"points": 2},
        {"disturbed": 0.9},
        {"measured_at": 1e12},
        {"model": StepModel(fixed_s=0.0, token_s=0.0)},
    ],
)
async def test_a_reported_curve_that_no_engine_has_counts_nothing(clock: ManualClock, wrong: dict[str, object]) -> None:
    """Two points, a busy machine, the future, steps that take no time: the worker serves on without a curve."""
    room = Room(clock)
    known = curve(at=clock.now())
    async with room.client(bearer_of(WORKER), worker=WORKER) as client:
        for one in (known, replace(known, **wrong)):  # type: ignore[arg-type]
            body = msgspec.json.encode(replace(things.report(WORKER, things.TINY), curve=one))
            assert (await client.post("/internal/workers/heartbeat", content=body)).status_code == 200
            kept = [seen.report.curve for seen in await room.heartbeats.seen()]
            assert kept == [known if one is known else None]


async def test_no_start_or_wait_lasts_longer_than_any_can(clock: ManualClock) -> None:
    """Four hours and a second: a start, its phases together, a restart, a wait, a pause of an adapter."""
    room, known = Room(clock), things.report(WORKER, things.TINY)
    many = tuple(PhaseTiming(phase=WorkerState.LOADING, seconds=7_201.0) for _ in range(2))
    async with room.client(bearer_of(WORKER), worker=WORKER) as client:
        for wrong in (
            {"ready_in_s": 14_401.0},
            {"restart_s": 14_401.0},
            {"phases": many},
            {"load": Load(wait_s=14_401.0)},
            {"refused": (RefusedAdapter(version=things.TINY, reason="x", left_s=14_401.0),)},
        ):
            body = msgspec.json.encode(replace(known, **wrong))
            assert (await client.post("/internal/workers/heartbeat", content=body)).status_code == 400


async def test_last_words_keep_what_only_looks_like_a_nul(clock: ManualClock) -> None:
    """A backslash before ``u0000`` is text; a real NUL becomes a space, which the database can hold."""
    room = Room(clock)
    async with room.client(bearer_of(WORKER), worker=WORKER) as client:
        for sent, kept in ((r"a\\u0000b", r"a\u0000b"), (r"a\u0000b", "a b"), (r"a\\\u0000b", "a\\ b")):
            body = msgspec.json.encode(replace(things.report(WORKER, things.TINY), detail="DETAIL")).decode()
            answer = await client.post("/internal/workers/heartbeat", content=body.replace("DETAIL", sent))
            assert answer.status_code == 200
            assert [seen.report.detail for seen in await room.heartbeats.seen()] == [kept]
