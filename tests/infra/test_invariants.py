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
from infra.policy.view import build
from tests.infra.breaches_aws import CLUSTER, IDENTITY, NETWORK, OPERATIONS, STORAGE
from tests.infra.breaches_kubernetes import KUBERNETES, PLACEMENT
from tests.infra.breaches_pools import POOLS
from tests.infra.breaches_semantics import SEMANTICS
from tests.infra.edits import Breach, put
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
BREACHES = (*STORAGE, *NETWORK, *CLUSTER, *POOLS, *IDENTITY, *OPERATIONS, *KUBERNETES, *PLACEMENT, *SEMANTICS)
FLOOR = 63
"""The invariants that the design asked for at least."""


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


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: f"{breach.rule}")
def test_an_invariant_can_fail(fleet: Fleet, by_label: dict[str, Capture], breach: Breach) -> None:
    """A spoiled graph breaks the rule, at the node that was spoiled, and the untouched graph doesn't."""
    item = by_label[breach.stack]
    rule = next(rule for rule in INVARIANTS if rule.id == breach.rule)
    seen = (lambda graph: graph) if rule.as_written else as_stored
    assert rule.breaches(build(fleet, item.kind, item.region, seen(item.graph))) == []
    found = rule.breaches(build(fleet, item.kind, item.region, seen(breach.spoil(item.graph))))
    assert found, f"{rule.id} does not notice"
    if breach.where:
        assert breach.where in [node.name for node, _ in found if node]
    assert all(message for _, message in found)


def test_no_invariant_is_beyond_failing() -> None:
    """Each invariant has at least one way to break it among the tests, and the count is what was promised."""
    assert {breach.rule for breach in BREACHES} == {rule.id for rule in INVARIANTS}
    assert len({rule.id for rule in INVARIANTS}) == len(INVARIANTS) >= FLOOR


def test_the_pack_reports_a_breach(by_label: dict[str, Capture]) -> None:
    """What the tests find, the policies report too, with the URN and the remedy."""
    breach = next(breach for breach in BREACHES if breach.rule == "flow-logs")
    graph = breach.spoil(by_label[breach.stack].graph)
    found = violations(graph, as_stored(graph))
    assert [line.split(":", maxsplit=1)[0] for line in found] == ["flow-logs"]
    assert "aws:ec2/vpc:Vpc" in found[0]
    assert "ALL traffic" in found[0]


def test_the_pack_reports_what_was_written(by_label: dict[str, Capture]) -> None:
    """A rule about inputs speaks of what the program wrote, though the provider's answer would hide or excuse it."""
    graph = by_label["serving-us-east-1"].graph
    spoiled = put("StatefulSet", "penstock-gateway", "spec/replicas", 3)(graph)
    found = violations(spoiled, as_stored(graph))
    assert [line.split(":", maxsplit=1)[0] for line in found] == ["scaled-number-free"]
    assert violations(graph, as_stored(spoiled)) == []
