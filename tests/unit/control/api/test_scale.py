"""Scaling over the operators' API, and the slots of batch work over the workers'."""

from dataclasses import asdict

import httpx
import msgspec
import pytest

from penstock.domain.fleet.worker import WorkerState
from penstock.domain.tenancy.tenant import Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room, bearer_of, registered
from tests.support.samples import control_plane as things
from tests.support.samples.curves import curve
from tests.unit.control.autoscaler.test_autoscaler import V, ramped

SCALE = "/admin/v1/scale"


async def test_numbers_signals_and_changes_are_shown(clock: ManualClock) -> None:
    """A version's record has its wish, its signals with their ages, and its target."""
    fleet = await ramped(clock)
    async with fleet.room.client(await fleet.room.key(Role.ADMIN)) as operator:
        shown = (await operator.get(SCALE)).json()
        changes = (await operator.get(f"{SCALE}/history")).json()["records"]
        others = (await operator.get(f"{SCALE}/history?version=other@1")).json()["records"]
    assert (shown["is_on"], shown["gateways"], shown["silent"]) == (True, 1, [])
    assert shown["gateways_wanted"] is None, "the file names no bounds of gateways"
    (one,) = shown["versions"]
    assert (one["record"]["version"], one["record"]["after"], one["target"]["workers"]) == (V, 2, 2)
    assert {"asked_work", "growth", "backlog"} <= {signal["name"] for signal in one["record"]["signals"]}
    assert [(record["before"], record["after"]) for record in changes] == [(1, 2)]
    assert others == []


async def test_without_a_scale_file_nothing_is_shown(room: Room) -> None:
    """The answer says that scaling is off."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        shown = (await operator.get(SCALE)).json()
    assert (shown["is_on"], shown["versions"]) == (False, [])


async def test_a_tenants_key_sees_no_numbers(room: Room) -> None:
    """They are the operators'."""
    async with room.client(await room.key(Role.ADMIN, tenant="acme")) as admin:
        assert (await admin.get(SCALE)).status_code == 403
        assert (await admin.get(f"{SCALE}/history")).status_code == 403


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"points": 2}, "points"), ({"disturbed": 0.9}, "disturbed"), ({"measured_at": 4e9}, "measured_at")],
)
async def test_a_curve_that_no_engine_has_is_refused_by_field_and_remedy(
    operator: httpx.AsyncClient, clock: ManualClock, wrong: dict[str, float], field: str
) -> None:
    """Two points, a busy machine, the future: nothing is stored."""
    version = await registered(operator)
    body = msgspec.to_builtins(curve(at=clock.now()))
    negative = {"model": body["model"] | {"token_s": -1.0}}
    for bad, named in ((wrong, field), (negative, "model.token_s")):
        answer = await operator.put(f"/admin/v1/models/{version}/curves", json={"curve": body | bad})
        error = answer.json()["error"]
        assert (answer.status_code, named in error["param"]) == (400, True), error
        assert "measure again with penstock bench engine" in error["message"]
    assert (await operator.get(f"/admin/v1/models/{version}/curves")).json() == {"curves": []}


@pytest.mark.parametrize("told", [{}, {things.TINY: 3}])
async def test_a_heartbeats_answer_has_the_slots_of_batch_work(room: Room, told: dict[str, int]) -> None:
    """Absent means no bound."""
    room.orders.share(told)  # type: ignore[arg-type]
    report = asdict(things.report("w1", state=WorkerState.READY))
    async with room.client(bearer_of("w1"), worker="w1") as worker:
        answer = (await worker.post("/internal/workers/heartbeat", json=report)).json()
    assert answer.get("batch_slots") == told.get(things.TINY)


async def test_a_leaders_metrics_name_scaled_versions_and_another_leader_takes_them_away(clock: ManualClock) -> None:
    """They would stand beside the new leader's, and be summed with them."""
    fleet = await ramped(clock)
    scale = fleet.room.signals.scale
    done = await fleet.room.loop.tick()
    scale.show(done.scaling, done.asked)
    text = fleet.room.metrics.exposition().decode()
    assert f'penstock_scale_workers{{version="{V}"}} 2.0' in text
    scale.unknown()
    assert "penstock_scale_workers{" not in fleet.room.metrics.exposition().decode()
