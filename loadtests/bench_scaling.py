"""The autoscaler's part of a tick: reports merged, curves chosen, numbers decided, for 10,000 workers of 20 versions.

Run: ``make bench-scaling``. Everything runs in this process and is timed by its own CPU clock, best of some, beside the
making of that fleet's table entries. Ends with 1 above the bound.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from loadtests.fleets import catalogue, heartbeats, table
from penstock.apps import slos
from penstock.control.autoscaler.autoscaler import Autoscaler, ScaleSettings, ScaleStores
from penstock.control.registry.registry import Registry
from penstock.domain.fleet.demand import Counted, GatewayReport
from penstock.domain.fleet.versions import FleetView, Running
from penstock.domain.models.curves import Curve, Origin
from penstock.domain.models.steps import StepModel
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.bounds import Bounds
from penstock.scaling.reports import Reports
from tests.twins.audit import MemoryAudit
from tests.twins.registry import MemoryRegistry
from tests.twins.scaling import MemoryScaleRecords

WORKERS, VERSIONS, GATEWAYS, ROUNDS = 10_000, 20, 10, 15
MOST_MS = 50.0
CURVE = Curve(
    model=StepModel(fixed_s=0.02, token_s=1e-4, context_s=1e-6, sequence_s=1e-3),
    hardware="a GPU",
    measured_at=1.0,
    points=30,
    error_median=0.03,
    error_p90=0.1,
    disturbed=0.0,
    origin=Origin.SERVED,
)


def least_ms(operation: Callable[[], object]) -> float:
    def cost() -> float:
        began = time.process_time()
        operation()
        return time.process_time() - began

    return 1000.0 * min(cost() for _ in range(ROUNDS))


def reported(versions: tuple[str, ...]) -> Reports:
    """Return a minute of reports of all gateways, each with every standing of every version."""
    reports = Reports()
    for second in range(60):
        counted = tuple(
            Counted(version=one, standing=of, requests=second, prompt_tokens=100 * second, output_tokens=50 * second)
            for one in versions
            for of in Standing
        )
        for gateway in range(GATEWAYS):
            report = GatewayReport(gateway=f"g{gateway}", began=0.0, number=second + 1, counted=counted)
            reports.take(report, float(second))
    return reports


def main() -> int:
    known = catalogue(WORKERS, VERSIONS)
    seen = tuple(replace(one, report=replace(one.report, curve=CURVE)) for one in heartbeats(WORKERS, VERSIONS, 0))
    running = tuple(Running(worker=one.report.worker, version=one.report.version, started_at=0.0) for one in seen)
    reports = reported(tuple(one.id for one in known.versions))
    registry = MemoryRegistry(MemoryAudit())
    stores = ScaleStores(curves=registry, records=MemoryScaleRecords(), overrides=Registry(registry))
    settings = ScaleSettings(tiers=slos.load(), bounds=(Bounds(versions="*", least=1, most=1000),))
    scaler, view = Autoscaler(settings, stores), FleetView(running=running)

    async def tick(now: float) -> None:
        await scaler.keep(await scaler.step(known, seen, view, reports.demand(59.0), now))

    asyncio.run(tick(1.0))
    ours, entries = least_ms(lambda: asyncio.run(tick(1.5))), least_ms(lambda: table(WORKERS))
    print(f"autoscaler, {WORKERS} workers, {len(scaler.now)} versions, {GATEWAYS} gateways: {ours:.1f} ms of a tick")
    print(f"making that table's entries: {entries:.1f} ms; a part of {ours / entries:.2f}")
    return int(ours > MOST_MS)


if __name__ == "__main__":
    sys.exit(main())
