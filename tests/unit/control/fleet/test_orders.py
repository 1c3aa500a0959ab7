"""What workers were told."""

from penstock.control.fleet.orders import Orders
from penstock.domain.fleet import FleetPlan, Running
from penstock.domain.ids import WorkerId
from tests.support.clock import ManualClock
from tests.support.control_room import PaperHost
from tests.support.control_things import TINY


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


async def test_the_memory_is_bounded(clock: ManualClock) -> None:
    """After many thousand drains only the latest are remembered."""
    orders = Orders(PaperHost(clock))
    for number in range(3000):
        await orders.apply(FleetPlan(drain=(WorkerId(f"w{number}"),)))
    assert orders.wants_drained(WorkerId("w2999"))
    assert not orders.wants_drained(WorkerId("w0"))
