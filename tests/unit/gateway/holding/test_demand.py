"""What a gateway reports: at once, each second, and refused where nobody can hear it."""

import asyncio
from contextlib import suppress

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.demand import Counted, GatewayReport
from penstock.domain.ids import VersionId
from penstock.domain.tenancy.standing import Standing
from penstock.gateway.holding import WakeDemand
from penstock.gateway.holding import demand as telling
from penstock.gateway.holding.demand import Want
from tests.support.clock import ManualClock
from tests.support.gateways.dispatch import until
from tests.twins.demand import MemoryDemand

A, B = VersionId("a@1"), VersionId("b@1")
COUNTED = (Counted(version=A, standing=Standing.PAID, requests=3),)


class Ears:
    """Hears, or is away."""

    def __init__(self, *, is_away: bool = False) -> None:
        self.reports: list[GatewayReport] = []
        self.is_away = is_away

    @property
    def heard(self) -> list[tuple[VersionId, int, int]]:
        return [(one.version, one.requests, one.tokens) for report in self.reports for one in report.held]

    async def tell(self, report: GatewayReport) -> None:
        if self.is_away:
            raise StoreUnavailable
        self.reports.append(report)


async def test_a_wait_is_told_at_once_and_again_while_it_is_held() -> None:
    """The first report does not wait for the second to pass; what is held no more is told no more."""
    held, ears = {A: Want(2, 70)}, Ears()
    demand = WakeDemand(held=lambda: held)
    running = asyncio.create_task(demand.run(ears))
    demand.begin(A)
    await until(lambda: bool(ears.heard), within_s=telling.EVERY_S / 2)
    demand.begin(A)
    await until(lambda: len(ears.heard) == 2)
    held.clear()
    await asyncio.sleep(1.2 * telling.EVERY_S)
    assert ears.heard == [(A, 2, 70), (A, 2, 70)]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_a_request_that_is_not_held_is_wanted_for_some_seconds(clock: ManualClock) -> None:
    """Requests that another version answers, or whose time is too short, are added up while they are told."""
    ears, demand = Ears(), WakeDemand(clock=clock)
    demand.note(B, 10)
    demand.note(B, 20)
    for _ in range(2):
        await demand.tell(ears)
        clock.advance(telling.PASSING_S / 2)
    await demand.tell(ears)
    assert ears.heard == [(B, 2, 30), (B, 2, 30)]


async def test_a_wait_has_the_age_of_its_begin(clock: ManualClock) -> None:
    """A pause ends it; the next one begins anew."""
    held, ears = {A: Want(1, 7)}, Ears()
    demand = WakeDemand(clock=clock, held=lambda: held)
    for _ in range(3):
        await demand.tell(ears)
        clock.advance(1.0)
    held.clear()
    await demand.tell(ears)
    held[A] = Want(1, 7)
    await demand.tell(ears)
    assert [[one.oldest_s for one in report.held] for report in ears.reports] == [[0.0], [1.0], [2.0], [], [0.0]]


async def test_reports_are_numbered_and_carry_counters_and_the_longest_delay(clock: ManualClock) -> None:
    """The delay is of the time since the report before; the last report says that it is the last."""
    cpu, computed = iter((7.0, 7.0, 7.5)), iter((5.0, 5.5, 6.0, 6.01))
    ears, demand = Ears(), WakeDemand(gateway="host:1", clock=clock, counted=lambda: COUNTED, cpu_s=lambda: next(cpu))
    demand.computed_s = lambda: next(computed)
    for lag_s in (9.0, 0.3, 0.2, 9.0):  # the start's, two of its own work, and 10 ms of it in a wait for a core
        demand.late(lag_s)
    await demand.tell(ears)
    await demand.tell(ears, has_ended=True)
    assert [(one.gateway, one.number, one.loop_lag_s, one.has_ended) for one in ears.reports] == [
        ("host:1", 1, 0.3, False),
        ("host:1", 2, 0.0, True),
    ]
    assert [one.cpu_s for one in ears.reports] == [0.0, 0.5], "without its start"
    assert {one.counted for one in ears.reports} == {COUNTED}
    assert len({one.began for one in ears.reports}) == 1


async def test_where_nobody_hears_it_those_that_wait_are_told() -> None:
    """A database that is away is noticed with the first telling, and told anew as soon as there is one again."""
    told: list[str] = []
    demand = WakeDemand(held=lambda: {A: Want(1, 7)}, away=lambda: told.append("away"))
    ears = Ears(is_away=True)
    await demand.tell(ears)
    assert told == ["away"]
    ears.is_away = False
    await demand.tell(ears)
    assert (told, ears.heard) == (["away"], [(A, 1, 7)])


async def test_a_way_that_never_answers_is_away() -> None:
    """A frozen database is given a little time, and no more."""

    class Frozen(Ears):
        async def tell(self, report: GatewayReport) -> None:
            await asyncio.Event().wait()

    told: list[str] = []
    demand = WakeDemand(held=lambda: {A: Want(1, 7)}, away=lambda: told.append("away"))
    await demand.tell(Frozen())
    assert told == ["away"]


@pytest.mark.parametrize("number", [1, 2])
async def test_the_memory_twin_carries_it(number: int) -> None:
    """In one process the controller's side hears what a gateway tells."""
    memory, heard = MemoryDemand(), list[GatewayReport]()
    listening = asyncio.create_task(memory.run(heard.append))
    await asyncio.sleep(0)
    demand = WakeDemand(held=lambda: {A: Want(1, 7)})
    for _ in range(number):
        await demand.tell(memory)
    assert [one.number for one in heard] == list(range(1, number + 1))
    listening.cancel()
