"""Metrics of scaling: idle seconds by reason, and a price that is not known."""

from penstock.domain.fleet.worker import WorkerState
from penstock.telemetry import names
from penstock.telemetry.definitions import Metric
from tests.support.clock import ManualClock
from tests.unit.control.autoscaler.test_autoscaler import Fleet, V, bounds


async def shown(clock: ManualClock, **changes: object) -> Fleet:
    """Return a fleet of two idle workers at least, each of whose ticks is shown."""
    fleet = Fleet(clock, bounds(least=2, **changes))
    await fleet.deploy(2)
    tick = fleet.room.loop.tick

    for second in range(40):
        fleet.beat()
        fleet.report()
        done = await tick()
        fleet.room.signals.scale.show(done.scaling, done.asked)
        clock.advance(60.0 if second == 20 else 1.0)
    return fleet


def value(fleet: Fleet, metric: Metric, **labels: str) -> float | None:
    name = f"{metric.name}_total" if metric is names.SCALE_IDLE_GPU_SECONDS else metric.name
    return fleet.room.metrics.registry.get_sample_value(name, {"version": V, **labels})


async def test_idle_seconds_are_counted_by_reason(clock: ManualClock) -> None:
    """Two workers of the floor are idle once they serve; a gap between ticks is no evidence."""
    fleet = await shown(clock)
    assert set(fleet.states.values()) == {WorkerState.READY}
    counted = value(fleet, names.SCALE_IDLE_GPU_SECONDS, reason="floor")
    assert counted is not None
    assert 50.0 <= counted <= 2 * 38.0


async def test_a_price_that_is_not_known_is_absent_and_never_0(clock: ManualClock) -> None:
    """With one, the metric is what all workers cost."""
    assert value(await shown(clock), names.SCALE_DOLLARS_PER_HOUR) is None
    assert value(await shown(clock, price_per_hour=1.5), names.SCALE_DOLLARS_PER_HOUR) == 3.0
