"""Programs of a cluster reach those that they need, and no others: network policies, decided as Kubernetes does.

https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

import pytest

from infra.graph.captured import Capture
from infra.graph.nodes import Node
from tests.infra.model.reach import Way, allowed, ways


@pytest.fixture(scope="module")
def policies(by_label: dict[str, Capture]) -> list[Node]:
    """Return every network policy of the east's cluster."""
    stacks = (by_label["platform-us-east-1"], by_label["serving-us-east-1"])
    return [node for item in stacks for node in item.graph.nodes if node.type.endswith(":NetworkPolicy")]


@pytest.mark.parametrize(("way", "wanted"), ways(), ids=str)
def test_a_way_is_open_or_shut(policies: list[Node], way: Way, wanted: bool) -> None:
    """Finding P3: each connection that a program needs is open at both ends, and those that nobody needs are shut."""
    assert allowed(policies, way) == wanted


def test_a_shut_way_is_noticed(policies: list[Node]) -> None:
    """Without its own policy on either end, the metrics server does not reach its operator."""
    way = next(way for way, _ in ways() if way.port == 9666)
    for missing in ("allow-metrics-in", "allow-metrics-out"):
        left = [node for node in policies if not node.name.endswith(missing)]
        assert len(left) == len(policies) - 1
        assert not allowed(left, way)
