"""The operators' API, end to end on the memory twins."""

import itertools
from dataclasses import asdict, replace

import httpx
import msgspec
import pytest

from penstock.capacity.memory import worker_bytes
from penstock.domain.fleet.demand import GatewayReport, HeldNow
from penstock.domain.fleet.versions import Running
from penstock.domain.fleet.worker import RefusedAdapter, WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.model import Manifest
from penstock.domain.tenancy.tenant import Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room, bearer_of, new_model, registered
from tests.support.samples import adapter_versions
from tests.support.samples import control_plane as things


async def test_a_model_is_registered_once(operator: httpx.AsyncClient, clock: ManualClock) -> None:
    """The first push answers 201, the same bytes again 200 with the same version."""
    first = await operator.post("/admin/v1/models", json=new_model(things.manifest()))
    clock.advance(1.0)
    again = await operator.post("/admin/v1/models", json=new_model(things.manifest()))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    shown = await operator.get(f"/admin/v1/models/{first.json()['id']}")
    assert msgspec.convert(shown.json()["manifest"], Manifest) == things.manifest()
    assert [model["id"] for model in (await operator.get("/admin/v1/models")).json()["models"]] == [first.json()["id"]]


async def test_a_bad_model_is_refused_with_its_reason(operator: httpx.AsyncClient) -> None:
    """A pickled file answers 422 and says what to do; a wrong type 400 and names the field."""
    pickled = await operator.post("/admin/v1/models", json=new_model(things.manifest(path="model.bin")))
    assert (pickled.status_code, pickled.json()["error"]["code"]) == (422, "artifact_refused")
    assert "safetensors" in pickled.json()["error"]["message"]
    body = new_model(things.manifest())
    body["manifest"] = {**asdict(things.manifest()), "task": "sing"}
    wrong = await operator.post("/admin/v1/models", json=body)
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "manifest.task")


@pytest.mark.parametrize("raw", [b"{", b"\xff", b"[]", b'{"replicas": "3"}', b'{"replicas": 1, "more": 2}', b""])
async def test_a_bad_body_is_a_bad_request(operator: httpx.AsyncClient, raw: bytes) -> None:
    """Broken JSON, wrong types and unknown fields are refused."""
    answer = await operator.put("/admin/v1/deployments/x@1", content=raw)
    assert answer.status_code == 400


async def test_a_huge_body_is_refused(operator: httpx.AsyncClient) -> None:
    """A body above the bound answers 413 without being held whole."""
    answer = await operator.post("/admin/v1/models", content=b" " * (5 << 20))
    assert answer.status_code == 413


async def test_aliases_lead_and_have_a_history(operator: httpx.AsyncClient, room: Room) -> None:
    """Putting an alias validates it, keeps its history, and taking it away ends it."""
    version = await registered(operator)
    good = {"shares": [{"version": version, "weight": 10_000}]}
    assert (await operator.put("/admin/v1/aliases/chat", json=good)).status_code == 200
    bad = await operator.put("/admin/v1/aliases/chat", json={"shares": [{"version": version, "weight": 1}]})
    assert bad.status_code == 400
    assert [route["alias"] for route in (await operator.get("/admin/v1/aliases")).json()["aliases"]] == ["chat"]
    assert (await operator.delete("/admin/v1/aliases/chat")).status_code == 200
    assert (await operator.delete("/admin/v1/aliases/chat")).status_code == 404
    history = (await operator.get("/admin/v1/aliases/chat")).json()["history"]
    assert [past["route"] is None for past in history] == [True, False]
    assert [act.what for act in await room.audit.newest(2)] == ["alias.remove", "alias.set"]


async def test_rules_go_back_with_the_table(operator: httpx.AsyncClient, room: Room) -> None:
    """A table of before has its rules again, and the next tick agrees."""
    version = await registered(operator)
    await operator.put("/admin/v1/autos/auto", json={"rules": [{"name": "old", "to": version}]})
    await room.loop.tick()
    number = (await room.tables.latest()).number
    await operator.put("/admin/v1/autos/auto", json={"rules": [{"name": "new", "to": version}]})
    await room.loop.tick()
    assert (await operator.post("/admin/v1/table/rollback", json={"number": number})).status_code == 200
    await room.loop.tick()
    assert (await room.tables.latest()).autos[0].rules[0].name == "old"


async def test_a_tenant_may_have_a_version_of_its_own(operator: httpx.AsyncClient, room: Room) -> None:
    """An override stays through a change of weights that does not name it, and is taken away by an empty list."""
    await room.key(Role.INFER, tenant="acme")
    old, new = await registered(operator), await registered(operator, "b")

    async def put(weight: int, **more: object) -> object:
        shares = [{"version": old, "weight": 10_000 - weight}, {"version": new, "weight": weight}]
        answer = await operator.put("/admin/v1/aliases/chat", json={"shares": shares, **more})
        assert answer.status_code == 200
        return answer.json()["overrides"]

    own = [{"tenant": "acme", "version": new}]
    assert await put(0, overrides=own) == own
    assert await put(5_000) == own
    begun = await operator.post("/admin/v1/rollouts", json={"alias": "chat", "candidate": new})
    assert (begun.status_code, "has overrides for tenants" in begun.json()["error"]["message"]) == (409, True)
    assert await put(5_000, overrides=[]) == await put(0) == []


async def test_overrides_that_can_not_be_are_refused(operator: httpx.AsyncClient, room: Room) -> None:
    """Foreign versions, strangers, tenants twice, tenants whose keys may not use the alias; it stays as it was."""
    old, new = await registered(operator), await registered(operator, "b")
    await room.key(Role.INFER, tenant="acme")
    closed = await operator.post("/admin/v1/tenants", json={"id": "closed"})
    narrow = await operator.post("/admin/v1/keys", json={"tenant": "closed", "models": ["other"]})
    assert (closed.status_code, narrow.status_code) == (201, 201)
    shares = [{"version": old, "weight": 10_000}]
    good = {"shares": shares, "overrides": [{"tenant": "acme", "version": old}]}
    assert (await operator.put("/admin/v1/aliases/chat", json=good)).status_code == 200
    bad = {
        "which is none of this alias's versions": [{"tenant": "acme", "version": new}],
        "there is no tenant nobody": [{"tenant": "nobody", "version": old}],
        "no key of closed may use chat": [{"tenant": "closed", "version": old}],
        "twice": [{"tenant": "acme", "version": old}] * 2,
        "at most 1000": [{"tenant": "acme", "version": old}] * 1_001,
    }
    for says, overrides in bad.items():
        answer = await operator.put("/admin/v1/aliases/chat", json={"shares": shares, "overrides": overrides})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "overrides")
        assert says in answer.json()["error"]["message"]
    moved = await operator.put("/admin/v1/aliases/chat", json={"shares": [{"version": new, "weight": 10_000}]})
    assert "acme can't have" in moved.json()["error"]["message"]
    (route,) = (await operator.get("/admin/v1/aliases")).json()["aliases"]
    assert (route["shares"], route["overrides"]) == (shares, good["overrides"])


async def test_a_deployment_is_scaled_and_restarted(operator: httpx.AsyncClient, clock: ManualClock) -> None:
    """Replicas are set; a restart asks for the renewal of everything that runs now."""
    version = await registered(operator)
    assert (await operator.post(f"/admin/v1/deployments/{version}/restart")).status_code == 404
    put = await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 2})
    assert put.json()["replicas"] == 2
    restarted = await operator.post(f"/admin/v1/deployments/{version}/restart")
    assert (restarted.status_code, restarted.json()["renew_before"]) == (202, clock.now())
    scaled = await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 3})
    assert scaled.json()["renew_before"] == clock.now()
    assert (await operator.put("/admin/v1/deployments/no@1", json={"replicas": 1})).status_code == 400


async def test_a_version_is_pinned_and_unpinned(operator: httpx.AsyncClient, room: Room) -> None:
    """Its workers never sleep from then on; both are in the audit log; what is not deployed can't be pinned."""
    version = await registered(operator)
    assert (await operator.put(f"/admin/v1/deployments/{version}/pin")).status_code == 404
    await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 1})
    assert (await operator.put(f"/admin/v1/deployments/{version}/pin")).json()["pinned"] is True
    assert (await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 2})).json()["pinned"] is True
    assert (await operator.get("/admin/v1/models")).json()["models"][0]["pinned"] is True
    assert (await operator.delete(f"/admin/v1/deployments/{version}/pin")).json()["pinned"] is False
    acts = [(act.what, act.target) for act in await room.audit.newest(9)]
    assert {("deployment.pin", version), ("deployment.unpin", version)} <= {*acts}
    async with room.client(await room.key(Role.AUDITOR)) as auditor:
        assert (await auditor.put(f"/admin/v1/deployments/{version}/pin")).status_code == 403


async def test_a_pin_that_does_not_fit_is_refused(clock: ManualClock) -> None:
    """More pinned than the pool holds is a conflict that says how much it is, and nothing changes."""
    room = Room(clock, pool_bytes=worker_bytes(things.manifest()))
    async with room.client(await room.key(Role.ADMIN)) as operator:
        one, other = [await registered(operator, seed) for seed in "ab"]
        for version in (one, other):
            await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 1})
        assert (await operator.put(f"/admin/v1/deployments/{one}/pin")).status_code == 200
        refused = await operator.put(f"/admin/v1/deployments/{other}/pin")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        assert "pinned workers would need 537 MB of the pool's 268 MB" in refused.json()["error"]["message"]
        assert (await operator.put(f"/admin/v1/deployments/{one}", json={"replicas": 2})).status_code == 409
        pinned = [one["pinned"] for one in (await operator.get("/admin/v1/deployments")).json()["deployments"]]
        assert sorted(pinned) == [False, True]


async def test_what_is_waited_for_is_shown_and_ordered(clock: ManualClock) -> None:
    """A pool of one place: who is waited for gets it, its worker hears that, and the status says what is held."""
    room = Room(clock, pool_bytes=worker_bytes(things.manifest()))
    async with room.client(await room.key(Role.ADMIN)) as operator:
        one, other = [VersionId(await registered(operator, seed)) for seed in "ab"]
        for number, version in enumerate((one, other)):
            await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 1})
            worker = WorkerId(f"w{number}")
            room.host.running[worker] = Running(worker=worker, version=version, started_at=clock.now())
        awake = things.report("w0", one)
        gone = replace(awake, state=WorkerState.SLEEPING, holds_memory=False)
        asleep = replace(gone, worker=WorkerId("w1"), version=other)
        desired = [await told_after_a_tick(room, other, told) for told in ((awake, asleep), (gone, asleep))]
        assert desired == [["sleep", "sleep"], ["sleep", "serve"]]
        tick = await room.loop.tick()
        room.runtime.held_bytes, room.runtime.waited_for = tick.plan.held_bytes, tick.wanted
        room.runtime.unfit = ("v does not fit",)
        pool = (await operator.get("/admin/v1/status")).json()["pool"]
        assert pool["unfit"] == ["v does not fit"]
        assert (pool["limit_bytes"], pool["held_bytes"]) == (worker_bytes(things.manifest()),) * 2
        assert [(one["version"], one["requests"]) for one in pool["waited_for"]] == [(other, 2)]
        states = {one["id"]: one["states"] for one in (await operator.get("/admin/v1/models")).json()["models"]}
        assert states == {one: {"sleeping": 1}, other: {"sleeping": 1}}
        whys = [(one["decision"]["what"], one["decision"]["signal"]) for one in room_decisions(room)]
        assert ("sleep", "requests_held") in whys
        assert ("wake", "requests_held") in whys


NUMBERS = itertools.count(1)
"""Of a gateway's reports."""


async def told_after_a_tick(room: Room, wanted: VersionId, told: tuple[WorkerReport, ...]) -> list[str]:
    """Return what workers that report this hear next, while requests for a version are held."""
    held = (HeldNow(version=wanted, requests=2, tokens=90),)
    room.demand.take(GatewayReport(gateway="g", began=1.0, number=next(NUMBERS), held=held))
    for report in told:
        room.heartbeats.take(report)
    await room.loop.tick()
    found = []
    for report in told:
        name, body = report.worker, msgspec.json.encode(report)
        async with room.client(bearer_of(name, report.version), worker=name, version=report.version) as worker:
            found.append(str((await worker.post("/internal/workers/heartbeat", content=body)).json()["desired"]))
    return found


def room_decisions(room: Room) -> list[dict[str, dict[str, str]]]:
    found: list[dict[str, dict[str, str]]] = msgspec.to_builtins(room.decisions.newest(99))
    return found


async def test_workers_report_and_are_shown(operator: httpx.AsyncClient, room: Room, clock: ManualClock) -> None:
    """A heartbeat shows up with its age, and a worker that was told to go hears it in the answer."""
    version = await registered(operator)
    report = things.report("w1", VersionId(version), WorkerState.LOADING)
    async with room.client(bearer_of("w1", version), worker="w1", version=version) as worker:
        answer = await worker.post("/internal/workers/heartbeat", content=msgspec.json.encode(report))
        assert answer.json() == {"desired": "serve"}
        clock.advance(2.0)
        shown = (await operator.get("/admin/v1/workers")).json()["workers"]
        assert [(one["id"], one["state"], one["age_s"]) for one in shown] == [("w1", "loading", 2.0)]
        await room.loop.tick()
        answer = await worker.post("/internal/workers/heartbeat", content=msgspec.json.encode(report))
        assert answer.json() == {"desired": "drain"}
        assert (await worker.get(f"/internal/versions/{version}")).json()["id"] == version
    await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 1})
    restarted = await operator.post("/admin/v1/workers/w1/restart")
    assert restarted.status_code == 202
    assert (await operator.get("/admin/v1/deployments")).json()["deployments"][0]["renew"] == ["w1"]
    assert (await operator.post("/admin/v1/workers/nobody/restart")).status_code == 400


async def test_a_worker_with_garbled_last_words_is_still_heard(room: Room) -> None:
    """A NUL in a worker's report, which no database holds, becomes a space instead of a refusal."""
    report = things.report("w1", state=WorkerState.FAILED)
    async with room.client(bearer_of("w1"), worker="w1") as worker:
        body = msgspec.json.encode(replace(report, detail="bad\0bytes"))
        assert (await worker.post("/internal/workers/heartbeat", content=body)).status_code == 200
    assert [one.report.detail for one in await room.heartbeats.seen()] == ["bad bytes"]


async def test_a_key_is_shown_once(operator: httpx.AsyncClient, room: Room) -> None:
    """The secret is in the answer that made the key and nowhere else; hashes are never shown."""
    assert (await operator.post("/admin/v1/tenants", json={"id": "shop", "plan": {"weight": 2}})).status_code == 201
    assert (await operator.post("/admin/v1/tenants", json={"id": "shop"})).status_code == 409
    made = (await operator.post("/admin/v1/keys", json={"tenant": "shop", "expires_in_s": 60})).json()
    listed = await operator.get("/admin/v1/keys")
    assert made["id"] in {key["id"] for key in listed.json()["keys"]}
    hashes = [key.secret_hash for key in await room.tenancy.keys()]
    audit = await operator.get("/admin/v1/audit")
    for text in (listed.text, audit.text):
        assert made["secret"] not in text
        assert not any(digest in text for digest in hashes)
    assert "key.mint" in audit.text


async def test_a_key_is_rotated_and_revoked(operator: httpx.AsyncClient, clock: ManualClock) -> None:
    """Rotation leaves the old key its overlap; revoking works once; unknown tenants and keys are refused."""
    await operator.post("/admin/v1/tenants", json={"id": "shop"})
    old = (await operator.post("/admin/v1/keys", json={"tenant": "shop"})).json()
    new = (await operator.post(f"/admin/v1/keys/{old['id']}/rotate", json={"overlap_s": 30})).json()
    keys = {key["id"]: key for key in (await operator.get("/admin/v1/keys")).json()["keys"]}
    assert keys[old["id"]]["expires_at"] == clock.now() + 30
    assert keys[new["id"]]["expires_at"] == 0
    assert (await operator.post(f"/admin/v1/keys/{new['id']}/revoke")).status_code == 200
    assert (await operator.post(f"/admin/v1/keys/{new['id']}/revoke")).status_code == 400
    assert (await operator.post(f"/admin/v1/keys/{new['id']}/rotate", json={})).status_code == 400
    assert (await operator.post("/admin/v1/keys", json={"tenant": "nobody"})).status_code == 400
    for seconds in (-1, 1e12, 1e308):
        body = {"tenant": "shop", "expires_in_s": seconds}
        assert (await operator.post("/admin/v1/keys", json=body)).status_code == 400


async def test_a_key_is_no_successor_of_a_wider_one(room: Room, operator: httpx.AsyncClient) -> None:
    """An admin of some models rotates keys of these models alone: the successor's secret is shown to it."""
    await operator.post("/admin/v1/tenants", json={"id": "shop"})
    wide = (await operator.post("/admin/v1/keys", json={"tenant": "shop", "role": "admin"})).json()
    narrow = (
        await operator.post("/admin/v1/keys", json={"tenant": "shop", "role": "admin", "models": ["small"]})
    ).json()
    async with room.client(narrow["secret"]) as client:
        assert (await client.post(f"/admin/v1/keys/{wide['id']}/rotate", json={})).status_code == 403
        assert (await client.post(f"/admin/v1/keys/{narrow['id']}/rotate", json={})).status_code == 201


async def test_a_table_is_rolled_back_for_good(operator: httpx.AsyncClient, room: Room) -> None:
    """Going back publishes the old routes under a new number, and the next tick agrees."""
    old, new = await registered(operator, "a"), await registered(operator, "c")
    for version in (old, new):
        await operator.put("/admin/v1/aliases/chat", json={"shares": [{"version": version, "weight": 10_000}]})
        await room.loop.tick()
    assert (await operator.get("/admin/v1/table")).json()["number"] == 2
    back = await operator.post("/admin/v1/table/rollback", json={"number": 1})
    assert back.json()["number"] == 3
    table = (await room.loop.tick()).table
    assert [(route.alias, route.shares[0].version) for route in table.routes] == [("chat", old)]
    history = (await operator.get("/admin/v1/table/history")).json()["tables"]
    assert [one["number"] for one in history][-2:] == [2, 1]
    assert (await operator.post("/admin/v1/table/rollback", json={"number": 99})).status_code == 400


async def test_status_and_limits(operator: httpx.AsyncClient) -> None:
    """Status tells table and workers at a glance; a limit that is no number is a bad request."""
    status = (await operator.get("/admin/v1/status")).json()
    assert status == {
        "leader": False,
        "leader_name": "",
        "ready": False,
        "table": 0,
        "table_made_at": 0.0,
        "failed_ticks": 0,
        "workers": {},
        "held": [],
        "certificate_ends_at": None,
        "limits_shared": True,
        "pool": None,
        "batch_work": {"is_paused": False, "requests": 0, "batches": 0, "outside": []},
    }
    assert (await operator.get("/admin/v1/audit?limit=many")).json()["error"]["param"] == "limit"


async def test_adapters_are_listed_with_their_base_and_holders(operator: httpx.AsyncClient, room: Room) -> None:
    """What a worker has told it holds is shown of the adapter; the base can't go while it is on, and says why."""
    for made in (adapter_versions.BASE.manifest, adapter_versions.manifest()):
        assert (await operator.post("/admin/v1/models", json=new_model(made))).status_code == 201
    base, pirate = adapter_versions.BASE.id, adapter_versions.version().id
    for version in (base, pirate):
        assert (await operator.put(f"/admin/v1/deployments/{version}", json={"replicas": 1})).status_code == 200
    refused = RefusedAdapter(version=pirate, reason="it answers wrong", left_s=41.2)
    report = replace(things.report("w1", base), adapters=(pirate,), refused=(refused,))
    async with room.client(bearer_of("w1", base), worker="w1", version=base) as worker:
        await worker.post("/internal/workers/heartbeat", content=msgspec.json.encode(report))
        assert (await worker.get(f"/internal/versions/{pirate}")).json()["digest"] == adapter_versions.version().digest
        other = await registered(operator)
        assert (await worker.get(f"/internal/versions/{other}")).status_code == 403
    listed = {one["id"]: one for one in (await operator.get("/admin/v1/models")).json()["models"]}
    assert (listed[pirate]["base"], listed[pirate]["resident"]) == (base, ["w1"])
    assert (listed[base]["base"], listed[base]["resident"]) == ("", [])
    assert (listed[pirate]["refused"], listed[base]["refused"]) == (["w1 (for 41 s more): it answers wrong"], [])
    stays = await operator.put(f"/admin/v1/deployments/{base}", json={"replicas": 0})
    assert (stays.status_code, pirate in stays.json()["error"]["message"]) == (409, True)
    table = (await room.loop.tick()).table
    assert {one.id: one.base for one in table.versions} == {base: "", pirate: base}
    assert [plan.start for plan in room.host.plans] == []


async def test_an_adapter_is_refused_without_its_base(operator: httpx.AsyncClient) -> None:
    """The registry says which digest it lacks; nothing is stored."""
    refused = await operator.post("/admin/v1/models", json=new_model(adapter_versions.manifest()))
    assert (refused.status_code, adapter_versions.BASE.digest in refused.json()["error"]["message"]) == (422, True)
    assert (await operator.get("/admin/v1/models")).json()["models"] == []
