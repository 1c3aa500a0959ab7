"""Every invariant holds in every stack, at preview and after an update, and every one of them can fail.

The engine hands stack policies what the provider gave back, and resource policies what the program wrote; so do these.
"""

import pytest
from pulumi_policy import ResourceValidationPolicy, StackValidationArgs, StackValidationPolicy

from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.graph.nodes import Graph
from infra.graph.values import UNKNOWN
from infra.policy.crossguard import policies
from infra.policy.registry import INVARIANTS
from infra.policy.settings import Setting, rows
from infra.policy.view import build
from tests.infra.edits import option, put
from tests.infra.engine import as_policy_resources, as_single_resources, at_preview
from tests.infra.provider import as_stored

LABELS = (
    "global",
    "region-us-east-1",
    "platform-us-east-1",
    "serving-us-east-1",
    "region-us-west-2",
    "platform-us-west-2",
    "serving-us-west-2",
    "mesh",
)
WRONG: dict[str, object] = {
    "least": -1,
    "most": 10**9,
    "some": None,
    "none": ["x"],
    "within": "100h",
    "every": [],
    "has": [],
    "is": {},
}
"""A value that a row's word refuses."""


def violations(written: Graph, stored: Graph) -> list[str]:
    """What the shipped policy pack reports: resource policies see what was written, stack policies what is stored."""
    arguments, singles = StackValidationArgs(as_policy_resources(stored)), as_single_resources(written)
    found: list[str] = []
    for policy in policies():

        def report(message: str, urn: str | None = None, name: str = policy.name) -> None:
            found.append(f"{name}: {urn}: {message}")

        if isinstance(policy, ResourceValidationPolicy):
            for single in singles:
                policy.validate(single, report)
        elif isinstance(policy, StackValidationPolicy):
            policy.validate(arguments, report)
    return found


def test_every_stack_is_captured(captures: tuple[Capture, ...]) -> None:
    """The labels these tests run over are exactly the stacks of the shipped config."""
    assert tuple(item.label for item in captures) == LABELS


@pytest.mark.parametrize("label", LABELS)
def test_every_invariant_holds(by_label: dict[str, Capture], label: str) -> None:
    """The policy pack finds nothing once the stack stands, its provider's defaults filled in and its groups scaled."""
    graph = by_label[label].graph
    assert violations(graph, as_stored(graph)) == []


@pytest.mark.parametrize("label", LABELS)
def test_every_invariant_holds_at_preview(by_label: dict[str, Capture], label: str) -> None:
    """The policy pack finds nothing where everything the cloud computes is not known yet."""
    graph = at_preview(by_label[label].graph, UNKNOWN)
    assert violations(graph, graph) == []


@pytest.mark.parametrize("label", ["serving-us-east-1", "serving-us-west-2"])
def test_every_invariant_holds_of_what_the_controller_makes(
    fleet: Fleet, clusters: tuple[Capture, ...], label: str
) -> None:
    """Row 3.7: workers that the platform's writer makes of the shipped pools break no rule of the cluster either."""
    (item,) = (one for one in clusters if one.label == label)
    view = build(fleet, item.kind, item.region, item.graph)
    assert {rule.id: found for rule in INVARIANTS if (found := rule.breaches(view))} == {}


def wrong(wanted: object) -> object:
    if isinstance(wanted, dict):
        return WRONG.get(next(iter(wanted)), "wrong")
    return not wanted if isinstance(wanted, bool) else ["wrong"] if isinstance(wanted, list) else "wrong"


@pytest.mark.parametrize(
    ("row", "path"),
    [(row, path) for row in rows() for path in row.must if not {"Pod", "Container"} & set(row.of)],
    ids=lambda one: one.id if isinstance(one, Setting) else one,
)
def test_each_setting_can_fail(fleet: Fleet, captures: tuple[Capture, ...], row: Setting, path: str) -> None:
    """Another value at a row's path is noticed, at the node that was spoiled."""
    views = [build(fleet, item.kind, item.region, item.graph) for item in captures]
    view, found = next((one, many) for one in views if (many := row.standing(one)))
    token, _, prop = row.beside.rpartition(".")
    (held,) = view.companions(f"aws:{token}", prop, found[0]) if row.beside else (found[0],)
    kind = held.type.partition(":")[2] if held.type.startswith("aws:") else held.type.rsplit(":", 1)[-1]
    given = wrong(row.must[path])
    spoil = put(kind, held.name, path.replace("*", "0").replace(".", "|"), given)
    if path.startswith("@"):
        spoil = option(kind, held.name, **{path[1:]: () if isinstance(row.must[path], dict) else given})
    spoilt = build(fleet, view.kind, view.region_name, spoil(view.graph))
    assert found[0].name in [node.name for node, _ in row.breaches(spoilt) if node]
    assert found[0].name not in [node.name for node, _ in row.breaches(view) if node]


def test_the_pack_reports_a_breach(by_label: dict[str, Capture]) -> None:
    """What the tests find, the policies report too, with the URN and the remedy."""
    graph = put("FlowLog", "all", "trafficType", "REJECT")(by_label["region-us-east-1"].graph)
    found = violations(graph, as_stored(graph))
    assert [line.split(":", maxsplit=1)[0] for line in found] == ["flow-logs"]
    assert "aws:ec2/vpc:Vpc" in found[0]
    assert "trafficType" in found[0]


def test_the_pack_reports_what_was_written(by_label: dict[str, Capture]) -> None:
    """A rule about inputs speaks of what the program wrote, though the provider's answer would hide or excuse it."""
    graph = by_label["region-us-east-1"].graph
    spoiled = put("LogGroup", "flow", "name", "Calling __str__ on an Output[T] is not supported.")(graph)
    found = violations(spoiled, as_stored(graph))
    assert [line.split(":", maxsplit=1)[0] for line in found] == ["inputs-resolved"]
    assert violations(graph, as_stored(spoiled)) == []
