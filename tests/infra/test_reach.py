"""Programs of a cluster reach those that they need, and no others: network policies, decided as Kubernetes does.

https://kubernetes.io/docs/concepts/services-networking/network-policies/
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import yaml

from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import Json, dig, items, mapping, text
from infra.rendered.checked_in import facts

TABLE: dict[str, list[list[object]]] = yaml.safe_load(
    Path(__file__).with_name("reach.yaml").read_text(encoding="utf-8")
)
CARRIED: dict[tuple[str, str], dict[str, str]] = {
    (one["namespace"], one["labels"].get("app.kubernetes.io/name", "")): one["labels"]
    for chart in facts().values()
    for one in chart["workloads"]
}
"""The labels that pods of charts really carry."""
UNGUARDED = ("kube-system",)
"""Namespaces of the cluster's own, where no policy of ours stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A pod by namespace and name, or an address outside."""

    namespace: str = ""
    name: str = ""
    address: str = ""

    @property
    def labels(self) -> dict[str, str]:
        if self.namespace == "kube-system":
            return {"k8s-app": self.name}
        return CARRIED.get((self.namespace, self.name), {"app.kubernetes.io/name": self.name})


def peer(told: object) -> Peer:
    namespace, _, name = str(told).partition("/")
    return Peer(namespace=namespace, name=name) if name else Peer(address=namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    caller: Peer
    called: Peer
    port: int
    protocol: str


def allowed(policies: list[Node], way: Way) -> bool:
    """Both ends must let it through; an address outside has no policy."""
    return _side(policies, way, way.caller, way.called, "egress", "to") and _side(
        policies, way, way.called, way.caller, "ingress", "from"
    )


def _side(policies: list[Node], way: Way, own: Peer, other: Peer, direction: str, key: str) -> bool:
    if own.address or own.namespace in UNGUARDED:
        return True
    mine = [node for node in policies if _selects(node, own) and direction.capitalize() in items(node.inputs, TYPES)]
    return not mine or any(
        _opens(rule, way) and any(_is(one, other) for one in items(rule, key))
        for node in mine
        for rule in items(node.inputs, f"spec.{direction}")
    )


TYPES = "spec.policyTypes"


def _selects(node: Node, own: Peer) -> bool:
    wanted = mapping(node.inputs, "spec.podSelector.matchLabels")
    return text(node.inputs, "metadata.namespace") == own.namespace and wanted.items() <= own.labels.items()


def _opens(rule: Json, way: Way) -> bool:
    return any(
        dig(port, "port") == way.port and (text(port, "protocol") or "TCP") == way.protocol
        for port in items(rule, "ports")
    )


def _is(told: Json, other: Peer) -> bool:
    block = mapping(told, "ipBlock")
    if block:
        # A pod has an address of the network too; AWS's agent matches blocks against pods as well.
        address = ip_address(other.address or "10.16.0.9")
        but = [ip_network(str(one)) for one in items(block, "except")]
        return address in ip_network(text(block, "cidr")) and not any(address in one for one in but)
    if other.address:
        return False
    spaces = mapping(told, "namespaceSelector.matchLabels")
    labels = mapping(told, "podSelector.matchLabels")
    return dict(spaces) == {"kubernetes.io/metadata.name": other.namespace} and labels.items() <= other.labels.items()


def ways() -> Iterator[tuple[Way, bool]]:
    for key in ("may", "may_not"):
        for caller, called, port, protocol in TABLE[key]:
            way = Way(caller=peer(caller), called=peer(called), port=int(str(port)), protocol=str(protocol))
            yield way, key == "may"


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
