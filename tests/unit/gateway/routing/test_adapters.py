"""Adapters at the gateway: their base's workers, their own name, and nothing for whoever may not know them."""

import random
import tracemalloc
from dataclasses import replace

import pytest

from penstock.domain.errors import NoCapacity, UnknownModel
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, RoutingTable, Share, VersionEntry, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import NO_VERSION, Alias, VersionId, WorkerId
from penstock.domain.serving.request import Prepared
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.charges import Origin, Shape
from penstock.gateway.dispatch.records import FailureEvidence, ProbeResult
from penstock.gateway.routing import turned_away
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver
from penstock.gateway.routing.route import WorkerRouter
from penstock.gateway.routing.selection import RouterSettings, SampleSettings
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.gateways import breakers
from tests.support.samples import adapter_versions
from tests.support.samples.calls import VERSION, principal, request

PIRATE = adapter_versions.entry()
WHILE_S = 60.0
NOBODY: frozenset[WorkerId] = frozenset()


def base(count: int = 3, *, state: WorkerState = WorkerState.READY, holding: int = -1) -> VersionEntry:
    """Return the base with so many workers, one of which holds the adapter."""
    workers = tuple(
        WorkerEntry(id=WorkerId(f"w{n}"), url=f"http://w{n}", state=state, adapters=(PIRATE.id,) * (n == holding))
        for n in range(count)
    )
    return replace(VERSION, workers=workers)


class House:
    """A gateway's table, breakers and router."""

    def __init__(self, of: VersionEntry, *others: VersionEntry) -> None:
        self.clock, self.table = ManualClock(), CurrentTable()
        self.breakers = Breakers(random.Random(0), breakers.STEADY)
        self.table.on_change(lambda _, after: self.breakers.learn(after.table.versions, after.at))
        self.router = WorkerRouter(
            table=self.table,
            health=self.breakers,
            clock=self.clock,
            chance=random.Random(1),
            settings=RouterSettings(sample=SampleSettings()),
            metrics=Metrics(),
        )
        self.resolver = TableResolver(self.table, self.breakers.is_shut)
        self.publish(of, *others)

    def publish(self, *versions: VersionEntry) -> None:
        route = Route(alias=Alias("sea"), shares=(Share(version=PIRATE.id, weight=WEIGHT_TOTAL),))
        number = self.table.number + 1
        self.table.swap(RoutingTable(number=number, made_at=0.0, routes=(route,), versions=(*versions, PIRATE)), 0.0)

    def pick(self, of: VersionEntry = PIRATE, *, blocks: tuple[int, ...] = ()) -> WorkerId:
        prepared = Prepared(prompt_tokens=20, blocks=blocks)
        return self.router.pick(of, prepared, lambda _: None, NOBODY).id

    def fail_all(self) -> None:
        """Have the platform's own probes find every worker dead."""
        for worker in self.table.view.workers:
            self.breakers.failed(worker, FailureEvidence.CLOSED, breakers.origin(), 0.0)


def test_an_adapter_has_the_roster_of_its_base() -> None:
    """The very same one, so that a thousand adapters cost what one costs; and its entry has the base's workers."""
    view = House(base()).table.view
    assert view.rosters[PIRATE.id] is view.rosters[VERSION.id]
    assert view.versions[PIRATE.id].workers is view.versions[VERSION.id].workers
    assert len(view.workers) == 3


def test_homes_outlive_tables_of_the_same_workers() -> None:
    """A table with other loads makes no order anew; one with another worker does."""
    house = House(base())
    homes = house.table.view.rosters[PIRATE.id].homes
    house.publish(base(holding=1))
    assert house.table.view.rosters[PIRATE.id].homes is homes
    house.publish(base(4))
    assert house.table.view.rosters[PIRATE.id].homes is not homes


@pytest.mark.parametrize("count", [3, 40])
def test_whoever_holds_it_gets_its_requests(count: int) -> None:
    """In a small version, and in one of which a pick sees a few workers alone; the base's own go anywhere."""
    house = House(base(count))
    home = next(iter(house.table.view.rosters[PIRATE.id].homes.of(PIRATE.id)))
    house.publish(base(count, holding=int(home[1:])))
    assert {house.pick() for _ in range(50)} == {home}
    assert len({house.pick(VERSION) for _ in range(50)}) > 1


def test_prompts_of_base_and_adapter_share_an_index_and_never_a_block() -> None:
    """One bound for all adapters of a base: as many of them as anybody likes grow no memory."""
    house = House(base())
    house.pick(blocks=(1, 2))
    house.pick(VERSION, blocks=(3, 4))
    assert list(house.router._indexes) == [VERSION.id]
    assert len(house.router._indexes[VERSION.id]) == 4


def test_where_nobody_serves_the_wait_is_the_bases() -> None:
    """Its start is told, as for the base; an adapter starts nobody."""
    starting = base(1, state=WorkerState.LOADING)
    house = House(replace(starting, workers=(replace(starting.workers[0], ready_in_s=7.0),)))
    with pytest.raises(NoCapacity) as refused:
        house.pick()
    assert refused.value.retry_after_s == 7.0


def test_a_dead_base_shuts_its_adapters_and_its_return_opens_them() -> None:
    """Health is known of workers, whoever asked: no request for the adapter is needed to find out."""
    house = House(base(1))
    house.fail_all()
    with pytest.raises(NoCapacity):
        house.pick()
    assert house.router.wait_s(PIRATE) == float("inf")
    house.clock.elapsed_s = 5.0
    (probe,) = house.breakers.due(5.0)
    house.breakers.judged(probe, ProbeResult.PASSED, 5.0)
    assert house.pick() == "w0"


def test_a_fallback_takes_over_from_an_adapter_whose_base_is_dead() -> None:
    """Aliases of adapters fall back as others do."""
    other = replace(
        VERSION, id=VersionId("plain@ba9876543210"), workers=(replace(base(1).workers[0], id=WorkerId("o")),)
    )
    house = House(base(1), other)
    shares = (Share(version=PIRATE.id, weight=WEIGHT_TOTAL), Share(version=other.id, weight=0))
    route = Route(alias=Alias("sea"), shares=shares, fallback=other.id)
    house.table.swap(RoutingTable(number=9, made_at=0.0, routes=(route,), versions=(base(1), other, PIRATE)), 0.0)
    assert house.resolver.resolve(request(model="sea"), principal()).id == PIRATE.id
    house.breakers.failed(WorkerId("w0"), FailureEvidence.CLOSED, breakers.origin(), 0.0)
    assert house.resolver.resolve(request(model="sea"), principal()).id == other.id


def test_a_bad_adapter_is_no_complaint_of_its_base() -> None:
    """Many tenants fail with the adapter: that is widespread of it, and nobody's excuse at the base or another one."""
    house = House(base(1))
    worker = WorkerId("w0")

    def fail(adapter: VersionId) -> bool:
        doubts = []
        for tenant, shape in (("a", "x"), ("b", "y"), ("c", "x")):
            origin = Origin(breakers.origin(tenant).tenant, Shape(f"{shape} {adapter}"), adapter)
            house.breakers.failed(worker, FailureEvidence.ANSWERED, origin, 0.0)
            doubts.append(house.breakers.doubt(worker, origin, 0.0, is_charged=False))
        for probe in house.breakers.due(1.0):
            house.breakers.judged(probe, ProbeResult.PASSED, 1.0)
        return bool(doubts[-1].is_own)

    assert fail(PIRATE.id) is False
    origin = breakers.origin("d")
    house.breakers.failed(worker, FailureEvidence.ANSWERED, origin, 1.0)
    doubt = house.breakers.doubt(worker, origin, 1.0, is_charged=False)
    for probe in house.breakers.due(2.0):
        house.breakers.judged(probe, ProbeResult.PASSED, 2.0)
    assert doubt.is_own is True
    assert not house.breakers.is_shut(VERSION.id)


def test_what_is_known_of_an_adapter_outlives_a_table() -> None:
    """Complaints of a version that is still served are kept, also where it has no workers of its own."""
    house = House(base(1))
    house.breakers._blame.complained(PIRATE.id, breakers.origin(), 0.0)
    house.publish(base(1))
    assert PIRATE.id in house.breakers._blame._complaints


def test_ten_thousand_unknown_names_cost_nothing() -> None:
    """Each is unknown, in the same words as any other model, and none is remembered."""
    house, who = House(base()), principal()
    names = [VersionId(f"pirate@{n:012x}") for n in range(10_000)]

    def ask() -> None:
        for name in names:
            with pytest.raises(UnknownModel):
                house.resolver.resolve(request(model=name), who)

    ask()
    tracemalloc.start()
    ask()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 50_000
    assert not house.router._indexes


@pytest.mark.parametrize("name", [PIRATE.id, "sea", "pirate@" + "e" * 20])
def test_another_tenants_adapter_is_as_unknown_as_none(name: str) -> None:
    """A key that may use the base alone hears of its adapters what it hears of any name that leads nowhere."""
    house = House(base())
    who = principal(models=(VERSION.id,))
    with pytest.raises(UnknownModel) as refused:
        house.resolver.resolve(request(model=name), who)
    with pytest.raises(UnknownModel) as nothing:
        house.resolver.resolve(request(model=name.replace("e", "f", 1)), who)
    assert refused.value.message == nothing.value.message.replace(name.replace("e", "f", 1), name)
    assert house.resolver.resolve(request(model=VERSION.id), who).base == NO_VERSION


def test_whoever_refuses_an_adapter_is_left_alone_with_it_for_a_while() -> None:
    """And with it alone: the base's requests and other adapters' go there; one that lists it later has it."""
    house = House(base(2))
    home = house.pick()
    house.router.turned_away(home, PIRATE.id, WHILE_S)
    (other,) = {house.pick() for _ in range(20)}
    assert other != home
    assert {house.pick(VERSION) for _ in range(50)} == {home, other}
    house.publish(base(2, holding=int(home[1:])))
    assert house.pick() == home
    house.publish(base(2))
    assert house.pick() == other
    house.clock.elapsed_s = WHILE_S
    assert house.pick() == home


def test_an_adapter_that_everybody_refuses_is_shut_and_its_base_is_not() -> None:
    """Requests hear when it is worth coming back, without a worker being asked; an alias falls back meanwhile."""
    house = House(base(2))
    for worker in ("w0", "w1"):
        house.router.turned_away(WorkerId(worker), PIRATE.id, WHILE_S)
    house.clock.elapsed_s = 5.0
    with pytest.raises(NoCapacity) as refused:
        house.pick()
    assert refused.value.retry_after_s == WHILE_S - 5.0
    assert "refused" in refused.value.message
    assert (house.router.refuses(PIRATE.id), house.router.refuses(VERSION.id)) == (True, False)
    assert house.router.wait_s(PIRATE) == float("inf")
    assert house.router.wait_s(VERSION) < float("inf")
    assert house.pick(VERSION) in {"w0", "w1"}
    resolver = TableResolver(house.table, house.router.refuses)
    shares = (Share(version=PIRATE.id, weight=WEIGHT_TOTAL), Share(version=VERSION.id, weight=0))
    route = Route(alias=Alias("sea"), shares=shares, fallback=VERSION.id)
    house.table.swap(RoutingTable(number=9, made_at=0.0, routes=(route,), versions=(base(2), PIRATE)), 0.0)
    assert resolver.resolve(request(model="sea"), principal()).id == VERSION.id


def test_a_request_that_has_met_the_rest_is_not_sent_to_who_refuses() -> None:
    """One worker was tried, the other refuses: nobody is left."""
    house = House(base(2))
    house.router.turned_away(WorkerId("w0"), PIRATE.id, WHILE_S)
    with pytest.raises(NoCapacity):
        house.router.pick(PIRATE, Prepared(prompt_tokens=1), lambda _: None, frozenset({WorkerId("w1")}))


def test_refusals_of_adapters_are_bounded_and_forgotten() -> None:
    """So many adapters are remembered, and none that has left the table."""
    known = turned_away.TurnedAway()
    for number in range(turned_away.MOST_REMEMBERED + 5):
        known.note(WorkerId("w"), VersionId(f"a{number}@x"), 0.0, WHILE_S)
    assert len(known) == turned_away.MOST_REMEMBERED
    known.keep({"a100@x"})
    assert [name for name, _ in known._words] == ["a100@x"]
