"""What only the whole fleet can show: contracts between stacks, symmetry, accounts, failover."""

from dataclasses import replace

from infra.config.model import Fleet
from infra.graph.captured import Capture
from tests.infra.edits import drop, put
from tests.infra.model import fleet as rules


def spoiled(captures: tuple[Capture, ...], label: str, **change: object) -> list[Capture]:
    return [replace(item, **change) if item.label == label else item for item in captures]  # type: ignore[arg-type]


def test_consumers_read_what_producers_export(captures: tuple[Capture, ...]) -> None:
    """Each stack reference resolves to outputs that the producer really exports, none of them empty."""
    assert list(rules.contract(captures)) == []


def test_a_lost_export_is_found(captures: tuple[Capture, ...]) -> None:
    """An output that a producer stops exporting is missed by its consumers."""
    graph = next(item.graph for item in captures if item.label == "region-us-east-1")
    thin = replace(graph, exports={key: value for key, value in graph.exports.items() if key != "clusterName"})
    found = list(rules.contract(spoiled(captures, "region-us-east-1", graph=thin)))
    assert [line.split(" ")[0] for line in found] == ["platform-us-east-1", "serving-us-east-1", "mesh"]


def test_regions_are_symmetric(captures: tuple[Capture, ...], fleet: Fleet) -> None:
    """The two regions hold the same resources but for their zones' numbers."""
    assert list(rules.symmetry(captures, fleet)) == []


def test_an_unlisted_difference_is_found(captures: tuple[Capture, ...], fleet: Fleet) -> None:
    """A resource that stands in one region alone is named, unless its pool is a listed asymmetry."""
    graph = next(item.graph for item in captures if item.label == "region-us-west-2")
    uneven = spoiled(captures, "region-us-west-2", graph=drop("NodeGroup", "l40s-base-usw2-az1")(graph))
    assert ["l40s-base" in line for line in rules.symmetry(uneven, fleet)] == [True]
    listed = replace(fleet, regions=(fleet.regions[0], replace(fleet.regions[1], asymmetries=("pool:l40s-base",))))
    assert list(rules.symmetry(uneven, listed)) == []


def test_every_identity_has_its_account(captures: tuple[Capture, ...]) -> None:
    """Each pod identity's service account is in the manifests or pinned in a chart."""
    assert list(rules.accounts(captures)) == []


def test_an_identity_without_account_is_found(captures: tuple[Capture, ...]) -> None:
    """A role for a service account that nobody makes is named."""
    graph = next(item.graph for item in captures if item.label == "serving-us-east-1")
    without = spoiled(captures, "serving-us-east-1", graph=drop("ServiceAccount", "penstock-worker")(graph))
    assert list(rules.accounts(without)) == ["region-us-east-1: penstock/worker has a role, and no service account"]


def test_any_region_may_be_lost(captures: tuple[Capture, ...], fleet: Fleet) -> None:
    """Without either region the shared name still has a healthy record elsewhere."""
    assert list(rules.failover(captures, fleet)) == []


def test_a_single_answering_region_is_found(captures: tuple[Capture, ...], fleet: Fleet) -> None:
    """With only one record left, losing its region is reported as an outage."""
    graph = next(item.graph for item in captures if item.label == "mesh")
    alone = spoiled(captures, "mesh", graph=drop("Record", "shared-us-west-2")(graph))
    assert list(rules.failover(alone, fleet)) == ["without us-east-1 nobody answers inference.example.com"]


def test_a_spoiled_input_does_not_leak(captures: tuple[Capture, ...]) -> None:
    """Spoiling a graph for one test leaves the shared capture as it was."""
    graph = next(item.graph for item in captures if item.label == "mesh")
    before = [node.inputs for node in graph.nodes]
    put("Record", "shared-us-west-2", "name", "x")(graph)
    assert [node.inputs for node in graph.nodes] == before
