"""Adapters in the routing table, and in the plan of what runs."""

from dataclasses import replace

import msgspec

from penstock.control.fleet.plan import FleetPolicy, plan
from penstock.control.fleet.versions import plan_versions
from penstock.control.publish.build import build
from penstock.domain.fleet.table import EMPTY, RoutingTable, VersionEntry, validate
from penstock.domain.fleet.versions import Catalogue, Deployment, FleetView, Seen
from penstock.domain.fleet.worker import PhaseTiming, WorkerState
from penstock.domain.ids import TenantId, VersionId
from penstock.domain.tenancy.owners import Owned
from penstock.filters.book import Book
from penstock.filters.pack import Action, Pack, Rule, Where
from penstock.gateway.routing.current import CurrentTable
from tests.support.samples import adapter_versions as made
from tests.support.samples import control_plane as things
from tests.support.samples.control_plane import NOW

BASE, PIRATE, JSON = made.BASE, made.version(), made.version("json", seed="d")
STARTED = (PhaseTiming(phase=WorkerState.WARMING, seconds=7.0),)
ON = Catalogue(
    versions=(BASE, PIRATE, JSON),
    routes=(things.route("sea", PIRATE.id),),
    deployments=(Deployment(version=BASE.id, replicas=1), Deployment(version=JSON.id, replicas=1)),
)


def worker(*adapters: VersionId) -> Seen:
    return things.seen(replace(things.report("w1", BASE.id, phases=STARTED), adapters=adapters))


def entries(table: RoutingTable) -> dict[VersionId, VersionEntry]:
    return {version.id: version for version in table.versions}


def make(catalogue: Catalogue, seen: list[Seen], latest: RoutingTable = EMPTY) -> RoutingTable:
    return validate(build(catalogue, seen, latest, NOW, silence_s=5.0))


def test_an_adapter_stands_in_the_table_beside_its_base() -> None:
    """One that is named and one that is on are there with their base and without workers; its start is the base's."""
    found = entries(make(ON, [worker()]))
    assert {version: entry.base for version, entry in found.items()} == {
        BASE.id: "",
        PIRATE.id: BASE.id,
        JSON.id: BASE.id,
    }
    assert [len(found[one].workers) for one in (BASE.id, PIRATE.id, JSON.id)] == [1, 0, 0]
    assert (found[PIRATE.id].start_s, found[PIRATE.id].price) == (7.0, PIRATE.manifest.price)


def test_an_adapter_is_filtered_by_its_own_packs_and_its_bases() -> None:
    """Each pack once, the adapter's not for the base, and of equal rules the stricter one acts."""
    base = made.version_of(replace(BASE.manifest, safety=("lax", "both")))
    own = made.version_of(replace(made.manifest(base=base), safety=("strict", "both")))
    catalogue = Catalogue(versions=(base, own), routes=(things.route("sea", own.id),))
    found = entries(make(catalogue, []))
    assert {one: found[one].safety for one in (base.id, own.id)} == {
        base.id: ("lax", "both"),
        own.id: ("lax", "both", "strict"),
    }
    rule = Rule(name="r", action=Action.MASK, category="c", phrases=("blue moon",), stages=frozenset({Where.OUTPUT}))
    lax = Pack(id="lax", version=1, rules=(rule,))
    strict = Pack(id="strict", version=1, rules=(replace(rule, action=Action.BLOCK),))
    book = Book(packs=(lax, strict, Pack(id="both", version=1)))
    assert [one.rule.action for one in book.policy(found[own.id].safety, ()).rules] == [Action.BLOCK]
    assert [one.rule.action for one in book.policy(found[base.id].safety, ()).rules] == [Action.MASK]


def test_a_base_is_there_because_of_its_adapter() -> None:
    """Nobody deployed or named it: its adapter did."""
    only = replace(ON, deployments=())
    assert entries(make(only, [])).keys() == {BASE.id, PIRATE.id}


def test_what_workers_hold_is_told_at_once_and_in_one_order() -> None:
    """An adapter that came makes a table of its own; the same ones by another last use make none."""
    first = make(ON, [worker()])
    second = make(ON, [worker(PIRATE.id, JSON.id)], first)
    assert entries(second)[BASE.id].workers[0].adapters == tuple(sorted((PIRATE.id, JSON.id)))
    assert second.number == first.number + 1
    assert make(ON, [worker(JSON.id, PIRATE.id)], second) is second


def test_nobody_is_started_for_an_adapter() -> None:
    """The base gets its worker; the adapter that is on gets none, on one machine and in a cluster."""
    assert plan(ON, [], FleetView(), NOW, FleetPolicy()).start == (BASE.id,)
    served = plan_versions(ON, [], FleetView(), NOW, FleetPolicy()).served or ()
    assert [one.version for one in served] == [BASE.id]
    assert [one.version for one in ON.staffed] == [BASE.id]


def test_an_adapter_is_for_the_tenants_of_its_base_as_well() -> None:
    """Of a base that is some tenants' alone its adapters are for those of both; without a word it is everybody's."""
    acme, beta, hers = TenantId("acme"), TenantId("beta"), TenantId("hers")
    for base, adapter, both in (
        (None, None, None),
        (None, (acme,), (acme,)),
        ((acme, beta), None, (acme, beta)),
        ((acme, beta), (beta, hers), (beta,)),
        ((acme,), (hers,), ()),
    ):
        told = ((BASE.id, base), (PIRATE.id, adapter))
        owned = tuple(Owned(version=version, tenants=whose) for version, whose in told if whose is not None)
        found = entries(make(replace(ON, owned=owned), [worker()]))
        assert (found[BASE.id].tenants, found[PIRATE.id].tenants, found[JSON.id].tenants) == (base, both, base)


def test_a_change_of_tenants_is_a_table_of_its_own() -> None:
    """It is told at once, as who serves is, and not with the next load."""
    first = make(ON, [worker()])
    owned = (Owned(version=PIRATE.id, tenants=(TenantId("acme"),)),)
    second = make(replace(ON, owned=owned), [worker()], first)
    assert second.number == first.number + 1


def test_a_template_is_sent_once_for_all_adapters_of_a_base() -> None:
    """A thousand of them are a table of less than a megabyte, whatever their template; gateways read it as one each."""
    long = made.version_of(replace(BASE.manifest, chat_template="{{ messages }}" * 200))
    many = tuple(
        made.version_of(replace(made.manifest(f"l{at}", long), files=PIRATE.manifest.files)) for at in range(1000)
    )
    on = (long.id, *(one.id for one in many))
    known = Catalogue(versions=(long, *many), deployments=tuple(Deployment(version=one, replicas=1) for one in on))
    table = make(known, [])
    assert {one.chat_template for one in table.versions if one.base} == {""}
    assert len(msgspec.json.encode(table)) < 1_000_000
    current = CurrentTable()
    current.swap(table, 0.0)
    assert {one.chat_template for one in current.view.table.versions} == {long.manifest.chat_template}
