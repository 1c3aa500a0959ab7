"""Decisions of the controller: each has its signal and its objective, and is noted once."""

from pathlib import Path

import pytest

from penstock.connectors.records import decisions
from penstock.connectors.records.decisions import DecisionFile
from penstock.control.decisions import Decisions
from penstock.domain.fleet.decision import Decided, Decision
from penstock.domain.fleet.versions import Deployment
from penstock.domain.tenancy.tenant import Role
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.samples import control_plane as things
from tests.twins.decisions import MemoryDecisions

WAIT = Decision(what="wait", target="v", signal="worker_deaths", value="3", objective="2 workers")
START = Decision(what="start", target="v", signal="workers_counted", value="0", objective="2 workers")


def test_what_lasts_is_noted_when_it_begins() -> None:
    """A reason that holds for many ticks is one decision; when it comes again it is another, and a start always is."""
    kept = Decisions(MemoryDecisions())
    for now, made in enumerate([(WAIT,), (WAIT,), (), (WAIT, START), (WAIT, START)]):
        kept.take(made, float(now))
    assert [(one.at, one.decision.what) for one in kept.newest(10)] == [
        (4.0, "start"),
        (3.0, "start"),
        (3.0, "wait"),
        (0.0, "wait"),
    ]
    assert len(kept.newest(2)) == 2


def test_decisions_survive_a_restart_and_stay_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later controller of the home tells them; the oldest go, in the file too, and a torn line is passed over."""
    monkeypatch.setattr(decisions, "MOST_KEPT", 10)
    path = tmp_path / "decisions/decisions.jsonl"
    file = DecisionFile(path)
    for number in range(55):
        file.note([Decided(at=float(number), decision=START)])
    with path.open("ab") as torn:
        torn.write(b'{"at":99')
    again = DecisionFile(path)
    assert [one.at for one in again.newest(3)] == [54.0, 53.0, 52.0]
    assert len(again.newest(1000)) == 10
    assert len(path.read_bytes().splitlines()) <= 21
    assert path.stat().st_mode & 0o077 == 0


async def test_operators_are_told_what_a_tick_decided(clock: ManualClock) -> None:
    """A deployment starts a worker, and a worker that is ready gets traffic; a tenant's admin is not told."""
    room = Room(clock)
    version = things.version()
    await room.registry.add_version(version, "sig", things.act())
    await room.registry.put_deployment(Deployment(version=version.id, replicas=1), things.act())
    await room.loop.tick()
    worker = next(iter(room.host.running))
    room.heartbeats.take(things.report(worker, version.id))
    await room.loop.tick()
    await room.loop.tick()
    async with room.client(await room.key(Role.ADMIN)) as client:
        found = (await client.get("/admin/v1/decisions")).json()["decisions"]
    assert [(one["decision"]["what"], one["decision"]["target"]) for one in found] == [
        ("send", worker),
        ("start", version.id),
    ]
    assert found[0]["decision"]["signal"] == "worker_state"
    assert found[1]["decision"]["objective"] == f"deployed workers of {version.id}: 1"
    async with room.client(await room.key(Role.ADMIN, tenant="acme")) as client:
        assert (await client.get("/admin/v1/decisions")).status_code == 403
