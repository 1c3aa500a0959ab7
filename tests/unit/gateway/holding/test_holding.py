"""Requests for a version that sleeps: held, let on, refused, and gone."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace

import pytest

from penstock.domain.clock import SystemClock
from penstock.domain.errors import (
    Asleep,
    ClientGone,
    DeadlineExceeded,
    DeadlineInQueue,
    DeadlineUnreachable,
    Evicted,
    NoCapacity,
    OverLimit,
    PenstockError,
    WorkerLost,
)
from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.outcome import Stage
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.lease import Lease
from penstock.gateway.calls.relay import Source
from penstock.gateway.holding import Holding, HoldSettings, WakeDemand
from penstock.gateway.holding.holding import HeldCall
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from tests.support.samples.calls import VERSION, call, principal
from tests.unit.gateway.holding.test_demand import Ears

SLEEPING, WAKING, READY = WorkerState.SLEEPING, WorkerState.WAKING, WorkerState.READY
V = VERSION.id


class StubRelay:
    """Keeps whom to end."""

    source: Source | None = None

    def attach(self, source: Source) -> None:
        self.source = source


@dataclass
class Site:
    """A gateway's table of one version, and its holding."""

    settings: HoldSettings = field(default_factory=HoldSettings)
    version: VersionEntry | None = None
    metrics: Metrics = field(default_factory=Metrics)
    demand: WakeDemand = field(default_factory=WakeDemand)
    clock: SystemClock = field(default_factory=SystemClock)
    relays: list[StubRelay] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.holding = Holding(
            fleet=self._Fleet(self),
            demand=self.demand,
            clock=self.clock,
            settings=self.settings,
            metrics=self.metrics,
        )

    @dataclass
    class _Fleet:
        site: "Site"

        def version(self, version: VersionId) -> VersionEntry | None:
            known = self.site.version
            return known if known is not None and known.id == version else None

        def serving(self, version: VersionId) -> int:
            known = self.version(version)
            return sum(worker.state.serves for worker in known.workers) if known is not None else 0

    def table(self, *states: WorkerState, restart_s: float = 3.0, seats: int = 2, **changes: float) -> None:
        """Put a table into force in which the version's workers are in these states."""
        workers = tuple(
            WorkerEntry(
                id=WorkerId(f"w{number}"), url="http://w", state=state, ready_in_s=changes.get("ready_in_s", 0.0)
            )
            for number, state in enumerate(states)
        )
        start_s = changes.get("start_s", 0.0)
        self.version = replace(VERSION, workers=workers, restart_s=restart_s, start_s=start_s, max_num_seqs=seats)
        self.holding.learn([self.version])

    def call(self, tenant: str = "acme", seconds: float = 30.0) -> Admitted:
        """Return a request that has so many seconds."""
        now = self.clock.monotonic()
        lease = Lease(opened_at=now, deadline_at=now + seconds)
        return replace(call(), principal=principal(tenant=TenantId(tenant)), lease=lease)

    def place(self, tenant: str = "acme", seconds: float = 30.0) -> HeldCall:
        held = self.holding.place(self.call(tenant, seconds))
        assert held is not None
        return held

    def waiting(self, tenant: str = "acme") -> "Waiting":
        held, relay = self.place(tenant), StubRelay()
        task = asyncio.get_running_loop().create_task(_held(held, relay))
        return Waiting(held, relay, task)

    def counted(self, outcome: str) -> float:
        """Return how many holds ended so."""
        labels = {"model": "toy", "outcome": outcome}
        return self.metrics.registry.get_sample_value(f"{names.HOLDS.name}_total", labels) or 0.0


def _held(held: HeldCall, relay: StubRelay) -> Coroutine[None, None, None]:
    return held.until_awake(relay)  # type: ignore[arg-type]  # as much of a relay as is asked for


@dataclass
class Waiting:
    """One request that waits."""

    held: HeldCall
    relay: StubRelay
    task: "asyncio.Task[None]"

    async def error(self) -> PenstockError:
        """Return why it is held no more."""
        with pytest.raises(PenstockError) as raised:
            await self.task
        self.held.leave()
        return raised.value


async def turn(times: int = 5) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


@pytest.fixture
def site() -> Site:
    return Site()


async def test_where_somebody_serves_nobody_waits(site: Site) -> None:
    """No place is taken, whoever else sleeps; and a version that has nobody at all is refused as ever."""
    assert site.holding.place(site.call()) is None
    site.table(READY, SLEEPING)
    assert site.holding.place(site.call()) is None
    site.table(WorkerState.LOADING)
    assert site.holding.place(site.call()) is None


@pytest.mark.parametrize("state", [SLEEPING, WAKING])
async def test_who_asks_for_a_sleeper_waits_until_it_serves(site: Site, state: WorkerState) -> None:
    """The request goes on with the table that shows a ready worker; its time is the stage of its own."""
    site.table(state)
    one = site.waiting()
    await turn()
    assert site.holding.wanted() == {V: (1, 5)}
    site.table(WorkerState.WARMING)
    await turn()
    assert not one.task.done()
    site.table(READY)
    await one.task
    assert site.holding.wanted() == {}
    assert one.held.call.timings.seconds[Stage.WAKE] >= 0
    one.held.leave()
    assert (site.counted("woken"), site.holding.all) == (1, {})
    assert site.holding.place(site.call()) is None


async def test_a_version_that_lost_its_workers_is_waited_for_as_one_that_wakes(site: Site) -> None:
    """If it has served before, and its start is within a hold; else its callers hear the wait at once."""
    site.table(READY, start_s=9.0)
    for others, start_s, ready_in_s in (((), 9.0, 90.0), ((), 0.0, 0.0), ((READY,), 9.0, 0.0)):
        site.table(WorkerState.LOADING, *others, start_s=start_s, ready_in_s=ready_in_s)
        assert site.holding.place(site.call()) is None
    site.table(WorkerState.LOADING, start_s=9.0, ready_in_s=7.0)
    with pytest.raises(DeadlineUnreachable):
        site.place(seconds=2.0)
    one = site.waiting()
    await turn()
    assert not one.task.done()
    site.table(READY, start_s=9.0)
    await one.task


async def test_a_failed_wake_and_a_killed_waker_hold_on(site: Site) -> None:
    """The worker that failed starts once more, another one is killed and replaced: who waited is answered after all."""
    site.table(WAKING)
    one = site.waiting()
    site.table(WorkerState.VERIFYING)
    other = site.waiting("other")
    site.table()
    site.table(WorkerState.FETCHING)
    late = site.waiting("late")
    await turn()
    assert [each.task.done() for each in (one, other, late)] == [False, False, False]
    site.table(READY, seats=3)
    await asyncio.gather(one.task, other.task, late.task)


async def test_so_many_go_on_as_there_are_seats(site: Site) -> None:
    """The rest follows in fair order as the first are answered, and whoever comes meanwhile waits behind them."""
    site.table(SLEEPING)
    crowd = [site.waiting("a") for _ in range(4)]
    rare = site.waiting("b")
    await turn()
    site.table(READY, seats=2)
    await turn()
    assert [one.task.done() for one in (*crowd, rare)] == [True, False, False, False, True]
    new = site.waiting("c")
    crowd[0].held.leave()
    await turn()
    assert [one.task.done() for one in (*crowd[1:], new)] == [False, False, False, True]
    for one in (rare, new, *crowd):
        await one.task
        one.held.leave()
    assert site.holding.all == {}


async def test_who_leaves_frees_the_place_at_once(site: Site) -> None:
    """The client that is gone waits no longer, and the next one has its place."""
    site = Site(HoldSettings(requests=2))
    site.table(SLEEPING)
    one, other = site.waiting("a"), site.waiting("b")
    await turn()
    with pytest.raises(NoCapacity):
        site.place("c")
    assert one.relay.source is not None
    one.relay.source.abort(ClientGone())
    assert isinstance(await one.error(), ClientGone)
    third = site.place("c")
    assert site.counted("left") == 1
    third.leave()
    other.task.cancel()


async def test_a_deadline_that_passes_is_told_as_never_started(site: Site) -> None:
    """It waited and never ran: it may be sent again, after about a wake."""
    site.table(SLEEPING)
    one = site.waiting()
    await turn()
    assert one.relay.source is not None
    one.relay.source.abort(DeadlineExceeded())
    error = await one.error()
    assert isinstance(error, DeadlineInQueue)
    assert (error.retry_after_s, site.counted("late")) == (3.0, 1)


async def test_a_wake_beyond_the_deadline_is_refused_at_once_and_wanted_all_the_same(site: Site) -> None:
    """Nobody waits in vain, and who comes back later finds it awake."""
    site.table(SLEEPING, restart_s=8.0)
    with pytest.raises(DeadlineUnreachable) as refused:
        site.place(seconds=2.0)
    assert refused.value.retry_after_s == 8.0
    ears = Ears()
    await site.demand.tell(ears)
    assert ears.heard == [(V, 1, 5)]
    site.table(WAKING, restart_s=8.0, ready_in_s=0.5)
    site.place(seconds=2.0).leave()


async def test_beyond_the_bound_a_caller_hears_when_and_how_many_wait() -> None:
    """The wait is what the last wake took, measured."""
    site = Site(HoldSettings(requests=2))
    site.table(SLEEPING, restart_s=2.5)
    places = [site.place("a"), site.place("b")]
    with pytest.raises(NoCapacity, match="2 requests wait") as refused:
        site.place("c")
    assert (refused.value.retry_after_s, site.counted("full")) == (2.5, 1)
    for place in places:
        place.leave()


async def test_who_has_most_places_gives_one_up() -> None:
    """One tenant's rush is not everybody's: its newest request goes, as evicted."""
    site = Site(HoldSettings(requests=4))
    site.table(SLEEPING)
    rush = [site.waiting("a"), site.waiting("a"), site.waiting("b"), site.waiting("c")]
    await turn()
    last = site.waiting("d")
    assert isinstance(await rush[1].error(), Evicted)
    assert site.counted("displaced") == 1
    for one in (rush[0], rush[2], rush[3], last):
        one.task.cancel()


async def test_nobody_is_held_longer_than_the_bound() -> None:
    """A wake that never comes ends as a refusal with when to come back."""
    site = Site(HoldSettings(seconds=0.05))
    site.table(SLEEPING)
    one = site.waiting()
    assert isinstance(await one.error(), NoCapacity)


async def test_where_nobody_hears_the_demand_all_are_refused(site: Site) -> None:
    """With the database away nothing wakes: who waits is told so at once, in honest words."""
    site.table(SLEEPING)
    one = site.waiting()
    await turn()
    site.demand.away()
    error = await one.error()
    assert isinstance(error, NoCapacity)
    assert "database" in error.message
    assert error.retry_after_s == 3.0


async def test_a_version_that_is_taken_away_is_waited_for_no_more(site: Site) -> None:
    """Withdrawn while it slept, it answers nobody."""
    site.table(SLEEPING)
    one = site.waiting()
    await turn()
    site.version = None
    site.holding.learn([])
    assert isinstance(await one.error(), NoCapacity)


async def test_copies_and_spare_work_are_not_held(site: Site) -> None:
    """Nobody waits for a copy, and what runs on spare capacity alone does not make the platform wake a model."""
    site.table(SLEEPING)
    call = site.call()
    call.lease.over_quota = OverLimit()
    assert site.holding.place(call) is None


async def test_a_fallback_answers_and_the_sleeper_is_wanted(site: Site) -> None:
    """Where another version answers meanwhile nobody waits, and the one that was meant wakes all the same."""
    site.table(SLEEPING)
    asked = site.call()
    asked = replace(asked, version=replace(VERSION, id=VersionId("other@1")), fell_back_from=V)
    assert site.holding.place(asked) is None
    site.holding.passed_by(VERSION)
    ears = Ears()
    await site.demand.tell(ears)
    assert ears.heard == [(V, 2, 5)]


async def test_an_adapter_waits_for_its_base(site: Site) -> None:
    """It has no workers of its own: those of its base wake for it."""
    site.table(SLEEPING)
    asked = site.call()
    asked = replace(asked, version=replace(VERSION, id=VersionId("adapter@1"), base=V))
    held = site.holding.place(asked)
    assert held is not None
    assert site.holding.wanted() == {V: (1, 5)}
    held.leave()


async def test_a_request_that_met_a_worker_on_its_way_to_sleep_waits_again(site: Site) -> None:
    """The worker was quicker than the table: the request is held as soon as that says so, and else goes back."""
    site.table(READY)
    asked = site.call()
    again = asyncio.create_task(site.holding.again(asked, Asleep()))
    await turn()
    site.table(SLEEPING)
    assert await again
    assert await site.holding.again(asked, WorkerLost())
    site.table(READY)
    assert not await site.holding.again(asked, NoCapacity())


async def test_what_waits_for_the_wake_does_not_count_as_waiting_for_the_engine(site: Site) -> None:
    """The time until which it may queue moves with the wake; its deadline does not."""
    site.table(SLEEPING)
    call = site.call()
    lease = call.lease
    lease.start_by, deadline_at = lease.deadline_at - 15.0, lease.deadline_at
    held = site.holding.place(call)
    assert held is not None
    task = asyncio.get_running_loop().create_task(_held(held, StubRelay()))
    await asyncio.sleep(0.05)
    site.table(READY)
    await task
    assert lease.start_by > deadline_at - 15.0
    assert lease.deadline_at == deadline_at


async def test_who_can_not_wake_is_refused_at_once() -> None:
    """Pinned versions hold the memory: its reason, no seconds, and no demand; who is on the way has its place."""
    site = Site()
    site.table(SLEEPING)
    held = site.waiting()
    await asyncio.sleep(0)
    assert site.version is not None
    site.version = replace(site.version, is_crowded_out=True)
    site.holding.learn([site.version])
    await asyncio.wait([held.task])
    for refused in (site.place, held.task.result):
        with pytest.raises(NoCapacity, match="pinned models hold the memory") as caught:
            refused()
        assert (caught.value.reason, caught.value.retry_after_s) == ("pool_pinned", None)
    held.held.leave()
    assert (site.counted("crowded_out"), site.holding.wanted()) == (2, {})
    site.table(WAKING)
    site.version = replace(site.version, is_crowded_out=True)
    site.holding.learn([site.version])
    assert site.place() is not None
