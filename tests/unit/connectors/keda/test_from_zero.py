"""From zero in a cluster: a request that is refused for want of a worker is pushed to KEDA as the first replica.

Real are the gateway's pipeline stage, its counters and report, the controller's loop and autoscaler, the numbers of
Deployments, and the scaler's socket; pods are on paper, and follow the number at once.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc.aio
import pytest

from penstock.apps import slos
from penstock.connectors.keda.messages import CLASSES, SERVICE, message
from penstock.connectors.keda.server import PushScaler, ScalerAddress, ToldNumbers
from penstock.connectors.kubernetes import names
from penstock.connectors.kubernetes.pools import read
from penstock.connectors.kubernetes.steps import told_numbers
from penstock.control.fleet.orders import Orders
from penstock.control.fleet.plan import FleetPolicy
from penstock.control.fleet.versions import plan_versions
from penstock.domain.errors import NoCapacity
from penstock.domain.fleet.demand import GatewayReport
from penstock.domain.fleet.versions import FleetPlan, FleetView, Running
from penstock.domain.ids import WorkerId
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.lease import Lease
from penstock.gateway.holding import Asked, Holding, HoldSettings, WakeDemand
from penstock.gateway.pipeline import Pipeline
from tests.support.clock import ManualClock
from tests.support.clusters import pools
from tests.support.controllers.in_memory import PaperHost
from tests.support.gateways.dispatch import FakeReply
from tests.support.patience import patient
from tests.support.samples import calls
from tests.unit.connectors.keda.test_scaler import Leader, opened, running
from tests.unit.control.autoscaler.test_autoscaler import Fleet, V, bounds

IDLE_S = 60.0
NAME = names.workload(V, "l40s")


class PaperCluster(PaperHost):
    """Tells numbers as the Kubernetes fleet does, and has as many pods."""

    def __init__(self, clock: ManualClock, numbers: ToldNumbers, folder: Path) -> None:
        super().__init__(clock)
        self.numbers, self.pools = numbers, read(pools.file(folder))

    async def view(self) -> FleetView:
        return FleetView(running=tuple(self.running.values()), placed=(V,))

    async def apply(self, plan: FleetPlan) -> None:
        self.numbers.tell("workers", told_numbers(plan.served or (), {}, self.pools))
        for worker in plan.drain:
            self.running[worker] = replace(self.running[worker], draining=True)
        spare = len(self.running) - self.numbers.all.get(NAME, 0)
        for worker in [one.worker for one in self.running.values() if one.draining][: max(0, spare)]:
            del self.running[worker]
        for _ in range(-spare):
            self.started += 1
            worker = WorkerId(f"{NAME}-{self.started}")
            self.running[worker] = Running(worker=worker, version=V, started_at=self.clock.now())


@pytest.fixture
def numbers() -> ToldNumbers:
    return ToldNumbers(Mock())


@pytest.fixture
async def channel(numbers: ToldNumbers) -> AsyncIterator[grpc.aio.Channel]:
    scaler = PushScaler(ScalerAddress(host="127.0.0.1", port=0), numbers, Leader(), "penstock")
    async with running(scaler), grpc.aio.insecure_channel(f"127.0.0.1:{await opened(scaler)}") as made:
        yield made


async def refused(clock: ManualClock) -> GatewayReport:
    """Return a gateway's report after one request found no worker, serving or asleep."""
    reports = list[GatewayReport]()
    teller, asked = Mock(), Asked(slos.load(), clock.monotonic)
    teller.tell = _kept(reports)
    demand = WakeDemand(gateway="refusing", clock=clock, counted=asked.counted)
    holding = Holding(fleet=Mock(), demand=demand, clock=clock, settings=HoldSettings(), metrics=Mock())
    dispatcher = Mock()
    dispatcher.run.side_effect = NoCapacity()
    rooms: Mapping[str, Any] = {name: Mock() for name in Pipeline.__dataclass_fields__}
    made = Pipeline(**{**rooms, "asked": asked, "holding": holding, "dispatcher": dispatcher, "clock": clock})
    now = clock.monotonic()
    plain = calls.call()
    call: Admitted = replace(
        plain, version=replace(plain.version, id=V), lease=Lease(opened_at=now, deadline_at=now + 30)
    )
    with pytest.raises(NoCapacity):
        await made._run(call, FakeReply())
    await demand.tell(teller)
    return reports[0]


def _kept(reports: list[GatewayReport]) -> Any:  # noqa: ANN401  a teller's method
    async def tell(report: GatewayReport) -> None:
        reports.append(report)

    return tell


@pytest.mark.parametrize("curve", [True, False])
async def test_a_refused_request_starts_a_worker(
    clock: ManualClock, tmp_path: Path, numbers: ToldNumbers, channel: grpc.aio.Channel, curve: bool
) -> None:
    """At zero workers nothing is active; one refusal later KEDA is pushed that there are to be replicas."""
    fleet = Fleet(clock, bounds(least=0, idle_s=IDLE_S, parked=0))
    host = fleet.room.host = PaperCluster(clock, numbers, tmp_path)
    fleet.room.orders = Orders(host)
    plan = partial(plan_versions, policy=FleetPolicy())
    fleet.room.loop = replace(fleet.room.loop, fleet=fleet.room.orders, plan=plan)
    await fleet.deploy(curve=curve)
    await fleet.run(20, per_s=1.0)
    assert numbers.all == {NAME: 1}
    await fleet.run(3 * IDLE_S)
    assert (numbers.all, fleet.workers) == ({NAME: 0}, [])
    act: Callable[..., Any] = channel.unary_stream(f"/{SERVICE}/StreamIsActive")
    stream = act(message("ScaledObjectRef", name=NAME, namespace="penstock"), timeout=patient(10.0))
    assert await _active(stream) is False
    fleet.room.demand.take(await refused(clock))
    await fleet.run(1)
    assert await _active(stream) is True
    assert numbers.all[NAME] >= 1
    assert len(fleet.workers) == numbers.all[NAME]


async def _active(stream: Any) -> bool:  # noqa: ANN401  grpc's own
    return bool(CLASSES["IsActiveResponse"].FromString(await stream.read()).result)
