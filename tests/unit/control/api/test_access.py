"""Who may call what: every route of the controller against every kind of credential."""

import msgspec
import pytest
from fastapi.routing import APIRoute

from penstock.control.api.app import ADMIN, make_app
from penstock.domain.ids import WorkerId
from penstock.domain.keys import key_id_of
from penstock.domain.tenant import Role
from tests.support import control_things as things
from tests.support.clock import ManualClock
from tests.support.control_room import Room, worker_bearer

WORKER = WorkerId("w1")
OPEN = {"/healthz", "/readyz", "/metrics"}
AUDITORS = {
    ("GET", f"{ADMIN}/audit"),
    ("GET", f"{ADMIN}/usage/rows"),
    ("GET", f"{ADMIN}/usage/tenant"),
}


def routes(prefix: str) -> list[tuple[str, str]]:
    """Return method and path of every route below the prefix, read from the application itself."""
    found = []
    for route in make_app(Room(ManualClock()).control).routes:
        if isinstance(route, APIRoute) and route.path.startswith(prefix):
            found += [(method, route.path.replace("{", "").replace("}", "")) for method in sorted(route.methods)]
    return found


def test_every_route_is_open_or_guarded() -> None:
    """There is no route outside the operators', the workers' and the three health addresses."""
    others = {path for _, path in routes("/") if not path.startswith((f"{ADMIN}/", "/internal/"))}
    assert others == OPEN
    assert len(routes(ADMIN)) >= 20


@pytest.mark.parametrize(("method", "path"), routes(ADMIN))
async def test_an_operators_route_wants_an_admin_key(clock: ManualClock, method: str, path: str) -> None:
    """Without key 401, with a forged, revoked, expired or workers' one 401, with a caller's key 403."""
    room = Room(clock)
    forged = await room.key(Role.ADMIN, tenant="other")
    revoked = await room.key(Role.ADMIN)
    await room.tenancy.revoke_key(key_id_of(revoked) or "", things.act(at=clock.now()))  # type: ignore[arg-type]
    expired = await room.key(Role.ADMIN, expires_in_s=5.0)
    clock.advance(6.0)
    forged = forged[:-1] + ("x" if forged[-1] != "x" else "y")
    cases = {"": 401, forged: 401, revoked: 401, expired: 401, worker_bearer(WORKER): 401}
    cases[await room.key(Role.INFER)] = 403
    if (method, path) not in AUDITORS:
        cases[await room.key(Role.AUDITOR)] = 403
    for credential, status in cases.items():
        async with room.client(credential) as client:
            answer = await client.request(method, path, json={})
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == ("forbidden" if status == 403 else "invalid_api_key")


@pytest.mark.parametrize(("method", "path"), routes(ADMIN))
async def test_an_admin_key_gets_through(clock: ManualClock, method: str, path: str) -> None:
    """With an admin key no route answers 401, 403 or 500."""
    room = Room(clock)
    async with room.client(await room.key(Role.ADMIN)) as client:
        answer = await client.request(method, path, json={})
    assert answer.status_code not in {401, 403, 500}


@pytest.mark.parametrize(("method", "path"), sorted(AUDITORS))
async def test_an_auditors_key_reads(clock: ManualClock, method: str, path: str) -> None:
    """Usage, ledger and audit log are an auditor's to read."""
    room = Room(clock)
    async with room.client(await room.key(Role.AUDITOR, tenant="tenant")) as client:
        assert (await client.request(method, path)).status_code == 200


@pytest.mark.parametrize(("method", "path"), routes("/internal"))
async def test_a_workers_route_wants_the_workers_credential(clock: ManualClock, method: str, path: str) -> None:
    """Not even an admin key reports heartbeats."""
    room = Room(clock)
    for credential in ("", "x" * 64, await room.key(Role.ADMIN), worker_bearer(WorkerId("w2"))):
        async with room.client(credential, worker=WORKER) as client:
            assert (await client.request(method, path, json={})).status_code == 401
    async with room.client(worker_bearer(WORKER)) as client:
        assert (await client.request(method, path, json={})).status_code == 401
    async with room.client(worker_bearer(WORKER), worker=WORKER) as client:
        assert (await client.request(method, path, json={})).status_code in {400, 404}


async def test_a_worker_reports_for_itself_alone(clock: ManualClock) -> None:
    """One that was broken into can't take a neighbour's place in the routing table, and with it everybody's prompts."""
    room = Room(clock)
    async with room.client(worker_bearer(WORKER), worker=WORKER) as client:
        for name, status in (("w2", 403), (WORKER, 200)):
            body = msgspec.json.encode(things.report(name))
            assert (await client.post("/internal/workers/heartbeat", content=body)).status_code == status
    assert [seen.report.worker for seen in await room.heartbeats.seen()] == [WORKER]


@pytest.mark.parametrize("path", sorted(OPEN))
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
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "route_not_found")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
