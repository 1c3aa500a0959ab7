"""What workers were told."""

from penstock.control.fleet.orders import Orders
from penstock.domain.fleet.versions import FleetPlan, Running
from penstock.domain.fleet.worker import WorkerOrder, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import PaperHost
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import TINY


async def test_who_was_told_to_go_is_remembered(clock: ManualClock) -> None:
    """A drained worker hears it again in its heartbeats, whether the host knows it or not."""
    host = PaperHost(clock)
    orders = Orders(host)
    assert not orders.wants_drained(WorkerId("guest"))
    await orders.apply(FleetPlan(drain=(WorkerId("guest"),)))
    assert orders.wants_drained(WorkerId("guest"))
    assert host.plans == [FleetPlan(drain=(WorkerId("guest"),))]


async def test_what_an_earlier_controller_ordered_still_counts(clock: ManualClock) -> None:
    """A worker that the host knows to be draining hears it from the next controller, too."""
    host = PaperHost(clock)
    host.running[WorkerId("w1")] = Running(worker=WorkerId("w1"), version=TINY, started_at=1.0, draining=True)
    orders = Orders(host)
    orders.listen_from(5.0)
    assert (await orders.view()).since == 5.0
    assert orders.wants_drained(WorkerId("w1"))


async def test_who_sleeps_and_who_wakes_hears_it(clock: ManualClock) -> None:
    """The last order holds, a drain above all, and the next plan sees what was ordered."""
    orders, worker = Orders(PaperHost(clock)), WorkerId("w1")
    await orders.apply(FleetPlan(wake=(worker,)))
    assert orders.desired(worker, WorkerState.SLEEPING) is WorkerOrder.SERVE
    await orders.apply(FleetPlan(sleep=(worker,)))
    assert orders.desired(worker, WorkerState.READY) is WorkerOrder.SLEEP
    assert (await orders.view()).orders == {worker: WorkerOrder.SLEEP}
    await orders.apply(FleetPlan(wake=(worker,)))
    assert orders.desired(worker, WorkerState.SLEEPING) is WorkerOrder.SERVE
    await orders.apply(FleetPlan(drain=(worker,)))
    assert orders.desired(worker, WorkerState.SLEEPING) is WorkerOrder.DRAIN


async def test_who_knows_nothing_wakes_nobody(clock: ManualClock) -> None:
    """A controller that ordered nothing, or leads no more, leaves each worker as it is."""
    orders, worker = Orders(PaperHost(clock)), WorkerId("w1")
    await orders.apply(FleetPlan(sleep=(worker,)))
    orders.forget()
    assert orders.desired(worker, WorkerState.SLEEPING) is WorkerOrder.SLEEP
    for state in (WorkerState.READY, WorkerState.WAKING, WorkerState.LOADING):
        assert orders.desired(worker, state) is WorkerOrder.SERVE


async def test_the_memory_is_bounded(clock: ManualClock) -> None:
    """After many thousand orders only the latest are remembered."""
    orders = Orders(PaperHost(clock))
    for number in range(3000):
        await orders.apply(FleetPlan(drain=(WorkerId(f"w{number}"),), sleep=(WorkerId(f"s{number}"),)))
    assert orders.wants_drained(WorkerId("w2999"))
    assert not orders.wants_drained(WorkerId("w0"))
    assert len((await orders.view()).orders) == 1000


def test_what_is_pinned_is_told_by_who_knows(clock: ManualClock) -> None:
    """Nothing before the first tick, nor of one that leads no more; none pinned is something else than not known."""
    orders = Orders(PaperHost(clock))
    assert orders.pinned(TINY) is None
    assert orders.ahead(WorkerId("w1")) is None
    orders.pin({TINY: (VersionId("lora@1"),)})
    orders.fetch({WorkerId("w1"): [TINY]})
    assert (orders.pinned(TINY), orders.pinned(VersionId("other@1"))) == (("lora@1",), ())
    assert (orders.ahead(WorkerId("w1")), orders.ahead(WorkerId("w2"))) == ((TINY,), ())
    orders.forget()
    assert (orders.pinned(TINY), orders.ahead(WorkerId("w1"))) == (None, None)


async def test_a_drained_worker_without_a_process_is_gone(clock: ManualClock) -> None:
    """Its last report may say that it is ready; one of another host drains on, and nothing is known of it."""
    host = PaperHost(clock)
    host.running[WorkerId("w1")] = Running(worker=WorkerId("w1"), version=TINY, started_at=1.0)
    orders, reports = Orders(host), [things.seen(things.report(name, TINY), clock.now()) for name in ("w1", "guest")]
    assert (await orders.view()).living(reports) == reports
    await orders.apply(FleetPlan(drain=(WorkerId("w1"), WorkerId("guest"))))
    assert (await orders.view()).living(reports) == reports[1:]
