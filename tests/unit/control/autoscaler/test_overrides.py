"""A person's override of a number: it binds until its end, over demand, clocks and leaders, and its end is told."""

from dataclasses import replace

import pytest

from penstock.control.autoscaler.autoscaler import Scaling
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.scaling import Act, Override, ScaleRecord
from penstock.domain.fleet.versions import FleetView
from penstock.domain.fleet.worker import WorkerOrder, WorkerState
from penstock.scaling.bounds import ClockFloor
from penstock.telemetry import names
from tests.support.clock import ManualClock
from tests.support.samples import control_plane as things
from tests.unit.control.autoscaler.test_autoscaler import Fleet, V, bounds, ramped

ALWAYS = ClockFloor(start="0 0 1 1 *", end="59 23 31 12 *", zone="UTC", least=3)


async def overridden(fleet: Fleet, workers: int, for_s: float = 600.0) -> Override:
    asked = Override(workers=workers, until=fleet.clock.now() + for_s, who="anna", reason="a launch")
    await fleet.room.rules.put_override(V, asked, things.act())
    return asked


async def deployed(manual: ManualClock, **changes: object) -> Fleet:
    fleet = Fleet(manual, bounds(**changes))
    await fleet.deploy()
    await fleet.run(20, per_s=1.0)
    return fleet


async def test_an_override_binds_at_once_and_demand_decides_after_its_end(clock: ManualClock) -> None:
    """Demand for one worker does not change three; after the end it does, as slowly as ever."""
    fleet = await deployed(clock)
    override = await overridden(fleet, 3)
    await fleet.run(10, per_s=1.0)
    assert (len(fleet.workers), fleet.room.scaler.now[V].cut) == (3, str(override))
    await fleet.run(585, per_s=1.0)
    assert len(fleet.workers) == 3
    await fleet.run(120, per_s=1.0)
    assert len(fleet.workers) == 1


async def test_fewer_than_demand_asks_for_is_kept_too(clock: ManualClock) -> None:
    """Two workers under load for two become one, in two phases: its stream ends first."""
    fleet = await ramped(clock)
    for worker in fleet.workers:
        fleet.running[worker] = 1
    await overridden(fleet, 1)
    await fleet.run(60, per_s=8.0)
    (cordoned,) = fleet.room.scaler.targets[V].cordoned
    assert (len(fleet.workers), fleet.room.orders.desired(cordoned, WorkerState.READY)) == (2, WorkerOrder.SERVE)
    fleet.running.clear()
    await fleet.run(10, per_s=8.0)
    assert len(fleet.workers) == 1
    assert (fleet.room.scaler.now[V].wish or 0.0) > 1.0


async def test_a_clock_and_a_number_by_hand_do_not_undo_it(clock: ManualClock) -> None:
    """The floor of the clock is three, and a rollout sets four: the override's two stay."""
    fleet = await deployed(clock, clock=(ALWAYS,))
    assert len(fleet.workers) == 3
    await overridden(fleet, 2)
    await fleet.run(60, per_s=1.0)
    await fleet.room.rules.put_replicas(V, 4, things.act())
    await fleet.run(60, per_s=1.0)
    assert len(fleet.workers) == 2


async def test_a_new_leader_keeps_it(clock: ManualClock) -> None:
    """It is stored with the deployment; the new leader's records tell it."""
    fleet = await deployed(clock)
    override = await overridden(fleet, 3)
    await fleet.run(10, per_s=1.0)
    fleet.room.scaler.forget()
    await fleet.run(400, per_s=1.0)
    assert len(fleet.workers) == 3
    newest = (await fleet.room.scaler.history(V, 1))[0]
    assert (newest.override, newest.act, newest.after) == (override, Act.HOLD, 3)


@pytest.mark.parametrize("is_cleared", [True, False])
async def test_its_end_is_told_once(clock: ManualClock, *, is_cleared: bool) -> None:
    """In the audit log, in the history and as a metric that goes."""
    fleet = await deployed(clock)
    override = await overridden(fleet, 3, for_s=60.0)
    await fleet.run(10, per_s=1.0)
    metric = fleet.room.signals.scale
    metric.show(await shown(fleet), fleet.room.demand.demand())
    assert exposed(fleet) == override.until
    if is_cleared:
        await fleet.room.rules.put_override(V, None, things.act("scale.override_clear"))
    await fleet.run(90, per_s=1.0)
    metric.show(await shown(fleet), fleet.room.demand.demand())
    assert exposed(fleet) is None
    acts = [one for one in await fleet.room.audit.newest(9) if one.what.startswith("scale.override_")]
    assert [one.what for one in acts] == ["scale.override_clear" if is_cleared else "scale.override_end"]
    assert str(override) in acts[0].detail
    (ended,) = [one for one in await fleet.room.scaler.history(V, 9) if "has ended" in one.reason]
    assert str(override) in ended.reason


async def test_bounds_of_the_host_cut_it(clock: ManualClock) -> None:
    """What the host can't hold is not started, and the override stays."""
    fleet = await deployed(clock)
    override = await overridden(fleet, 4)
    view = fleet.room.host.view

    async def small() -> FleetView:
        return replace(await view(), most={V: 2})

    fleet.room.host.view = small  # type: ignore[method-assign]
    await fleet.run(30, per_s=1.0)
    record = fleet.room.scaler.now[V]
    assert (len(fleet.workers), record.override) == (2, override)


async def test_records_wait_for_a_store_that_is_away(clock: ManualClock) -> None:
    """The number changes all the same, and the history has it later, in order."""
    fleet = await deployed(clock)
    note = fleet.room.scale_records.note

    async def away(_: object) -> None:
        raise StoreUnavailable

    fleet.room.scale_records.note = away  # type: ignore[method-assign, assignment]
    await fleet.run(30, per_s=8.0)
    await overridden(fleet, 3)
    await fleet.run(10, per_s=8.0)
    assert (len(fleet.workers), await fleet.room.scaler.history(V, 9)) == (3, ())
    fleet.room.scale_records.note = note  # type: ignore[method-assign]
    await fleet.run(1, per_s=8.0)
    kept: list[ScaleRecord] = list(await fleet.room.scaler.history(V, 9))
    assert [(one.before, one.after) for one in kept] == [(2, 3), (1, 2)]


async def shown(fleet: Fleet) -> Scaling:
    return (await fleet.room.loop.tick()).scaling


def exposed(fleet: Fleet) -> float | None:
    return fleet.room.metrics.registry.get_sample_value(names.SCALE_OVERRIDE_ENDS_AT.name, {"version": V})
