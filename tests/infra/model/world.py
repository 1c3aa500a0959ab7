"""One region as it stands once everything is deployed: its stacks, what they lean on, and who made which value."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from infra.config.model import Fleet
from infra.config.model import Region as Plan
from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import Json, items, number, text
from infra.policy.view import pod_labels, pod_spec
from tests.infra.written import with_workers

NAME = "app.kubernetes.io/name"
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job")


class AbsentError(LookupError):
    """Something that a walk must cross is not there."""


@dataclass(frozen=True, kw_only=True)
class World:
    """A region's three stacks with their workers, and the account's two."""

    fleet: Fleet
    region: str
    captures: tuple[Capture, ...]
    kept: dict[str, Any] = field(default_factory=dict)
    """What walks made once, by name."""

    @property
    def plan(self) -> Plan:
        return self.fleet.region(self.region)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        held = [one for one in self.captures if one.region in ("", self.region)]
        return tuple(node for one in with_workers(tuple(held)) for node in one.graph.nodes if node.custom)

    @cached_property
    def _here(self) -> Mapping[str, list[Node]]:
        near = (node for node in self.nodes if node.region in ("", self.region) or not node.type.startswith("aws:"))
        return by_kind(near)

    @cached_property
    def _everywhere(self) -> Mapping[str, list[Node]]:
        return by_kind(node for one in self.captures for node in one.graph.resources())

    @cached_property
    def _urns(self) -> Mapping[str, Node]:
        return {node.urn: node for node in self.nodes}

    def of(self, *kinds: str) -> list[Node]:
        """The region's nodes of these kinds; `eks/cluster:Cluster` if the last word alone would not do."""
        return [node for kind in kinds for node in self._here.get(kind, ())]

    def everywhere(self, *kinds: str) -> list[Node]:
        """The nodes of these kinds in every region."""
        return [node for kind in kinds for node in self._everywhere.get(kind, ())]

    def the(self, kind: str, name: str = "") -> Node:
        """The one node of a kind, and of a name if given. Raises `AbsentError` if there is none, or more."""
        found = [node for node in self.of(kind) if name in ("", node.name, text(node.inputs, "metadata.name"))]
        if len(found) != 1:
            raise AbsentError(f"{len(found)} of {kind} {name}".rstrip())
        return found[0]

    def at(self, node: Node, prop: str) -> list[Node]:
        """The nodes that a property was made from."""
        return [self._urns[urn] for urn in node.references.get(prop, ()) if urn in self._urns]

    def maker(self, value: str, kind: str) -> Node:
        """The node of a kind with this ARN, id or name. Raises `AbsentError`."""
        short = kind.rsplit(":", 1)[-1]
        for node in self.of(kind):
            if value and value in [node.outputs.get(key) for key in ("arn", "id", "name", "bucket", "url", "dnsName")]:
                return node
        raise AbsentError(f"{short} {value or 'without a name'}")

    def tier(self, subnet: Node) -> str:
        """The use of a subnet, by its tag, or by the config if others made it."""
        existing = self.plan.existing
        named = {one.id: one.tier.value for one in existing.subnets} if existing else {}
        return named.get(str(subnet.outputs["id"]), text(subnet.inputs, "tags.tier"))

    def pods(self) -> Iterator[tuple[Node, Mapping[str, Json], Mapping[str, Json]]]:
        """Each workload with its pod's labels and spec."""
        for node in self.of(*WORKLOADS):
            yield node, pod_labels(node), pod_spec(node)

    def selected(self, labels: Mapping[str, Json], space: str) -> list[tuple[Node, Mapping[str, Json]]]:
        """The workloads of a namespace whose pods carry these labels, each with its pod."""
        return [
            (node, spec)
            for node, own, spec in self.pods()
            if labels and labels.items() <= own.items() and text(node.inputs, "metadata.namespace") == space
        ]


def by_kind(nodes: Iterable[Node]) -> Mapping[str, list[Node]]:
    """Nodes by the last word of their type, and by all that follows its package."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        for kind in {node.type.rsplit(":", 1)[-1], node.type.partition(":")[2]}:
            found.setdefault(kind, []).append(node)
    return found


def opened(world: World, way: str, groups: Sequence[Json], port: float, *peers: str) -> bool:
    """Whether a rule of one of these security groups lets one of these networks or groups through on a port."""
    for rule in world.of(f"SecurityGroup{way}Rule"):
        names = {text(rule.inputs, "cidrIpv4"), text(rule.inputs, "referencedSecurityGroupId")} - {""}
        low, high = number(rule.inputs, "fromPort"), number(rule.inputs, "toPort")
        fits = text(rule.inputs, "ipProtocol") == "-1" or (
            low <= port <= high and text(rule.inputs, "ipProtocol") == "tcp"
        )
        if text(rule.inputs, "securityGroupId") in groups and fits and names & set(peers):
            return True
    return False


def when(*pairs: tuple[object, str]) -> Iterator[str]:
    """Yield the sentences that hold."""
    return (sentence for holds, sentence in pairs if holds)


def told(container: Json) -> dict[str, str]:
    """A container's plain variables."""
    return {text(one, "name"): text(one, "value") for one in items(container, "env")}


def main(spec: Json) -> Json:
    """A pod's first container; nothing if it has none."""
    return next(iter(items(spec, "containers")), None)
