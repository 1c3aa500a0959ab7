"""Gateway processes by requests a second, the CPU of one, and their loops' delay."""

from dataclasses import replace

from penstock.control.autoscaler.autoscaler import Autoscaler, ScaleSettings, ScaleStores
from penstock.control.registry.registry import Registry
from penstock.domain.fleet.demand import Demand, Rate, VersionDemand
from penstock.domain.fleet.versions import Catalogue, FleetView
from penstock.domain.ids import VersionId
from penstock.domain.models.curves import Curve
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.gateways import GatewayBounds, gateways
from penstock.scaling.pace import Pace
from tests.twins.audit import MemoryAudit
from tests.twins.registry import MemoryRegistry
from tests.twins.scaling import MemoryScaleRecords

BOUNDS = GatewayBounds(least=1, most=8)

COSTS = (0.001, 0.004)


def demand(per_s: float, running: int = 1, **more: object) -> Demand:
    """Return a demand of half batch work and half paid: a gateway carries both."""
    half = Rate(requests=per_s / 2)
    versions = {VersionId("m@0"): VersionDemand(rates={Standing.BATCH: half, Standing.PAID: half})}
    return replace(Demand(versions=versions, gateways=running, request_cpu_s=0.001), **more)  # type: ignore[arg-type]


def test_a_process_takes_six_tenths_of_a_core() -> None:
    """At a millisecond a request and a load of 0.6, 1,200 a second need two and 1,201 three; the bound cuts."""
    assert [gateways(Pace.adopting(1, 0.0), demand(rate), BOUNDS, 0.0).workers for rate in (600, 1200, 1201, 9e9)] == [
        1,
        2,
        3,
        8,
    ]


def test_the_bound_binds_what_was_adopted_too() -> None:
    """A new leader that hears two hundred names, true or not, starts no more processes than the bound allows."""
    for told in (demand(0.0, 201), demand(0.0, 201, missing=("g",))):
        assert gateways(Pace.adopting(201, 0.0), told, BOUNDS, 0.0).workers == BOUNDS.most


def test_dearer_requests_need_more_processes() -> None:
    """Long streams and large prompts cost a gateway more of its core: the same rate at 4 ms needs more."""
    need = [gateways(Pace.adopting(1, 0.0), demand(500, request_cpu_s=cpu_s), BOUNDS, 0.0).workers for cpu_s in COSTS]
    assert need == [1, 4]


def test_before_a_request_was_counted_the_number_stays() -> None:
    """Its cost is unknown, which is not zero: no process is added, and none goes however long that lasts."""
    pace = Pace.adopting(3, 0.0)
    for second in range(600):
        pace = gateways(pace, demand(500, 3, request_cpu_s=0.0), BOUNDS, float(second))
    assert pace.workers == 3


def test_a_late_loop_asks_for_one_more() -> None:
    """More than 100 ms of delay is one process more than speak, whatever the rate."""
    assert gateways(Pace.adopting(2, 0.0), demand(10, 2, loop_lag_s=0.101), BOUNDS, 0.0).workers == 3
    assert gateways(Pace.adopting(2, 0.0), demand(10, 2, loop_lag_s=0.1), BOUNDS, 0.0).workers == 2


def test_in_after_the_window_and_one_at_a_time() -> None:
    """Four processes go to one by single steps, fifteen seconds apart, five minutes after they were needed."""
    pace, changes = Pace.adopting(4, 0.0), list[tuple[float, int]]()
    pace = gateways(pace, demand(2400, 4), BOUNDS, 0.0)
    for second in range(1, 400):
        before, pace = pace, gateways(pace, demand(10, 4), BOUNDS, float(second))
        if pace.workers < before.workers:
            changes.append((float(second), pace.workers))
    assert changes == [(300.0, 3), (315.0, 2), (330.0, 1)]


def test_a_missing_gateway_holds() -> None:
    """A silent process may be working: none goes while one is silent, and more may come."""
    pace = gateways(Pace.adopting(4, 0.0), demand(10, 3, missing=("g",)), BOUNDS, 1000.0)
    assert pace.workers == 4
    assert gateways(pace, demand(3600, 3, missing=("g",)), BOUNDS, 1001.0).workers == 6


class _NoCurves:
    async def curves(self, version: VersionId) -> tuple[Curve, ...]:
        raise AssertionError(version)


def autoscaler(bounds: GatewayBounds | None = None) -> Autoscaler:
    registry = Registry(MemoryRegistry(MemoryAudit()))
    stores = ScaleStores(curves=_NoCurves(), records=MemoryScaleRecords(), overrides=registry)
    return Autoscaler(ScaleSettings(tiers={}, gateways=bounds), stores)


async def test_a_new_leader_says_nothing_before_all_could_report() -> None:
    """For ten seconds no number is known, then those that speak are adopted; a lost lead forgets it again."""
    scaler = autoscaler(BOUNDS)
    for now, speaking, expected in ((0.0, 0, None), (9.0, 3, None), (10.0, 4, 4), (11.0, 4, 4)):
        done = await scaler.step(Catalogue(), (), FleetView(), demand(10, speaking), now)
        await scaler.keep(done)
        assert (scaler.gateways and scaler.gateways.workers) == expected
    scaler.forget()
    assert (await scaler.step(Catalogue(), (), FleetView(), demand(10, 4), 12.0)).gateways is None


async def test_without_bounds_gateways_have_no_number() -> None:
    """A file that does not name gateways leaves their number to whoever deploys them."""
    scaler = autoscaler()
    for now in (0.0, 20.0):
        assert (await scaler.step(Catalogue(), (), FleetView(), demand(10, 4), now)).gateways is None
