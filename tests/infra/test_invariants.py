"""Every invariant holds in every stack, before and during deployment, and every one of them can fail."""

from dataclasses import replace

import pytest
from pulumi_policy import StackValidationArgs

from infra.capture.fleet import Capture
from infra.capture.graph import Graph
from infra.capture.values import UNKNOWN
from infra.config.model import Fleet
from infra.policy.crossguard import policies
from infra.policy.registry import INVARIANTS
from infra.policy.view import build
from tests.infra.breaches_aws import CLUSTER, IDENTITY, NETWORK, OPERATIONS, STORAGE
from tests.infra.breaches_kubernetes import KUBERNETES, PLACEMENT
from tests.infra.breaches_pools import POOLS
from tests.infra.edits import Breach
from tests.infra.engine import as_policy_resources, at_preview

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
BREACHES = (*STORAGE, *NETWORK, *CLUSTER, *POOLS, *IDENTITY, *OPERATIONS, *KUBERNETES, *PLACEMENT)
FLOOR = 63
"""The invariants that the design asked for at least."""


def violations(graph: Graph) -> list[str]:
    """What the shipped policy pack reports for a graph, as `pulumi up` would see it."""
    arguments = StackValidationArgs(as_policy_resources(graph))
    found: list[str] = []
    for policy in policies():

        def report(message: str, urn: str | None = None, name: str = policy.name) -> None:
            found.append(f"{name}: {urn}: {message}")

        policy.validate(arguments, report)
    return found


def test_every_stack_is_captured(captures: tuple[Capture, ...]) -> None:
    """The labels these tests run over are exactly the stacks of the shipped config."""
    assert tuple(item.label for item in captures) == LABELS


@pytest.mark.parametrize("label", LABELS)
def test_every_invariant_holds(by_label: dict[str, Capture], label: str) -> None:
    """The policy pack finds nothing in the stack as it will be deployed."""
    assert violations(by_label[label].graph) == []


@pytest.mark.parametrize("label", LABELS)
def test_every_invariant_holds_at_preview(by_label: dict[str, Capture], label: str) -> None:
    """The policy pack finds nothing where everything the cloud computes is not known yet."""
    assert violations(at_preview(by_label[label].graph, UNKNOWN)) == []


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: f"{breach.rule}")
def test_an_invariant_can_fail(fleet: Fleet, by_label: dict[str, Capture], breach: Breach) -> None:
    """A spoiled graph breaks the rule, at the node that was spoiled, and the untouched graph doesn't."""
    item = by_label[breach.stack]
    rule = next(rule for rule in INVARIANTS if rule.id == breach.rule)
    spoiled = replace(item, graph=breach.spoil(item.graph))
    assert rule.breaches(build(fleet, item.kind, item.region, item.graph)) == []
    found = rule.breaches(build(fleet, item.kind, item.region, spoiled.graph))
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
    found = violations(breach.spoil(by_label[breach.stack].graph))
    assert [line.split(":", maxsplit=1)[0] for line in found] == ["flow-logs"]
    assert "aws:ec2/vpc:Vpc" in found[0]
    assert "ALL traffic" in found[0]
