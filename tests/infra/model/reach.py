"""Who reaches whom: network policies as Kubernetes decides them, security groups and routes as EC2 does."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import combinations
from pathlib import Path

import yaml

from infra.components.addresses import ADDRESSES_PER_NODE
from infra.graph.nodes import Node
from infra.graph.values import Json, dig, items, mapping, number, text
from infra.rendered.checked_in import facts
from tests.infra.model.neighbours import neighbours
from tests.infra.model.world import World, opened, when

TABLE: dict[str, list[list[object]]] = yaml.safe_load(
    Path(__file__).parents[1].joinpath("reach.yaml").read_text(encoding="utf-8")
)
CARRIED: dict[tuple[str, str], dict[str, str]] = {
    (one["namespace"], one["labels"].get("app.kubernetes.io/name", "")): one["labels"]
    for chart in facts().values()
    for one in chart["workloads"]
}
"""The labels that pods of charts really carry."""
OPERATED: list[str] = yaml.safe_load(Path(__file__).parents[1].joinpath("agreed.yaml").read_text(encoding="utf-8"))[
    "operated"
]
UNGUARDED = ("kube-system",)
"""Namespaces of the cluster's own, where no policy of ours stands."""
ANYWHERE = "0.0.0.0/0"
SPACE = "kubernetes.io/metadata.name"
CLUSTER_ADDRESS = ip_address("172.20.0.10")
"""Of some Service: outside of every network of ours."""
OF = "10.16.0.0/16"
"""The network that the table speaks of."""
TYPES = "spec.policyTypes"
CALLED_BY_NODES = ("ecr.api", "ecr.dkr", "sts", "kms", "secretsmanager", "logs", "ec2", "eks-auth", "autoscaling")


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


Called = tuple[str, str, Mapping[str, Json], frozenset[str]]
"""A Service with a cluster address: namespace, name, selector, and the ports of its own and of its pods."""


def ways() -> Iterator[tuple[Way, bool]]:
    for key in ("may", "may_not"):
        for caller, called, port, protocol in TABLE[key]:
            way = Way(caller=peer(caller), called=peer(called), port=int(str(port)), protocol=str(protocol))
            yield way, key == "may"


def allowed(policies: list[Node], way: Way) -> bool:
    """Both ends must let it through; an address outside has no policy."""
    return _side(policies, way, way.caller, way.called, "egress", "to") and _side(
        policies, way, way.called, way.caller, "ingress", "from"
    )


def services(world: World) -> Iterator[Called]:
    """Those of the charts and our own."""
    for one in (each for chart in facts().values() for each in chart["services"]):
        ports = frozenset(map(str, (*one["ports"], *one["ports"].values())))
        yield one["namespace"], one["name"], one["selector"], ports
    for node in world.of("Service"):
        if text(node.inputs, "spec.clusterIP") != "None":
            space, name = (text(node.inputs, f"metadata.{part}") for part in ("namespace", "name"))
            ports = frozenset(text(port, "port") for port in items(node.inputs, "spec.ports"))
            yield space, name, mapping(node.inputs, "spec.selector"), ports


def carried(world: World) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The labels of all pods, with the namespace: of charts, of their operators, ours, and the resolver's."""
    yield "kube-system", {"k8s-app": "kube-dns"}
    yield from ((space, labels) for (space, _), labels in CARRIED.items())
    yield from ((one.namespace, one.labels) for one in map(peer, OPERATED))
    yield from ((text(node.inputs, "metadata.namespace"), labels) for node, labels, _ in world.pods())


def by_label(world: World, found: list[Node]) -> Iterator[str]:
    """Labels of policies are some pod's, and a peer's also those that a called Service selects by.

    The VPC CNI opens a cluster address only for labels of the Service's own selector, or a block that holds the
    address: aws/amazon-network-policy-controller-k8s ecc7e6a, pkg/resolvers/endpoints.go.
    """
    pods, served = [*carried(world)], [*services(world)]
    for node in found:
        for space, labels, ports in named(node):
            meant = [pod for near, pod in pods if near == space and labels.items() <= pod.items()]
            shut = [
                name
                for near, name, selector, own in served
                if near == space and own & ports and not labels.items() <= selector.items()
                if any(selector.items() <= pod.items() for pod in meant)
            ]
            yield from when(
                (not meant, f"{node.name} names pods {dict(labels)} of {space}, which nobody makes"),
                (shut, f"{node.name} opens pods, and not the cluster address of {shut}: it selects by other labels"),
            )
    for caller, service, port in TABLE["by_address"]:
        (aim,) = [one for one in served if "/".join(one[:2]) == service]
        rules = [rule for node in found if _selects(node, peer(caller)) for rule in items(node.inputs, "spec.egress")]
        if not any(_addressed(rule, aim, int(str(port))) for rule in rules):
            yield f"{caller} does not reach the cluster address of {service}"


def named(node: Node) -> Iterator[tuple[str, Mapping[str, Json], frozenset[str]]]:
    """The pods that a policy names, by namespace and labels, and the ports by which it leads to them."""
    own = text(node.inputs, "metadata.namespace")
    told = [(own, mapping(node.inputs, "spec.podSelector.matchLabels"), frozenset[str]())]
    for direction, key in (("ingress", "from"), ("egress", "to")):
        for rule in items(node.inputs, f"spec.{direction}"):
            ports = frozenset(text(one, "port") for one in items(rule, "ports") if key == "to")
            for one in items(rule, key):
                space = str(mapping(one, "namespaceSelector.matchLabels").get(SPACE) or own)
                told.append((space, mapping(one, "podSelector.matchLabels"), ports))
    return (one for one in told if one[1])


def _addressed(rule: Json, aim: Called, port: int) -> bool:
    """Whether a rule opens a Service's cluster address: by its namespace, or a block; labels are judged above."""
    aims = items(rule, "to") if port in [dig(one, "port") for one in items(rule, "ports")] else []
    return any(
        CLUSTER_ADDRESS in ip_network(text(one, "ipBlock.cidr"))
        if mapping(one, "ipBlock")
        else mapping(one, "namespaceSelector.matchLabels").get(SPACE) == aim[0]
        for one in aims
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


def _selects(node: Node, own: Peer) -> bool:
    wanted = mapping(node.inputs, "spec.podSelector.matchLabels")
    return text(node.inputs, "metadata.namespace") == own.namespace and wanted.items() <= own.labels.items()


def _opens(rule: Json, way: Way) -> bool:
    return not items(rule, "ports") or any(
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
    near = not spaces and "namespaceSelector" in mapping({"it": told}, "it")
    right = near or dict(spaces) == {"kubernetes.io/metadata.name": other.namespace}
    return right and labels.items() <= other.labels.items()


def network(world: World) -> Iterator[str]:
    """Tiers, zones and ways out: what each subnet reaches, and what may come to it."""
    yield from policies(world)
    yield from tiers(world)
    yield from neighbours(world) if world.plan.existing else endpoints(world)
    blocks = {one.name: ip_network(text(one.inputs, "cidrBlock")) for one in world.of("Subnet")}
    whole = ip_network(world.plan.cidr if world.plan.existing else text(world.the("Vpc").inputs, "cidrBlock"))
    others = [ip_network(one.cidr) for one in world.fleet.regions if one.name != world.region]
    yield from when(
        (any(one.overlaps(two) for one, two in combinations(blocks.values(), 2)), "two subnets have one address"),
        (any(whole.overlaps(one) for one in others), "two regions have one address"),
        (not all(one.subnet_of(whole) for one in blocks.values()), "a subnet lies outside the network"),  # type: ignore[arg-type]
    )
    told = yaml.safe_load(text(world.the("Addon", "vpc-cni").inputs, "configurationValues") or "{}")
    if str(dig(told, "enableNetworkPolicy")).lower() != "true":
        yield "nobody enforces network policies"


def policies(world: World) -> Iterator[str]:
    """The table of ways in the east, and each namespace's refusal of all others."""
    found = world.of("NetworkPolicy")
    within: dict[str, list[Node]] = {}
    for node in found:
        within.setdefault(text(node.inputs, "metadata.namespace"), []).append(node)
    for way, wanted in ways() if world.plan.cidr == OF else ():
        ends = {way.caller.namespace, way.called.namespace}  # policies of other namespaces select neither
        if allowed([node for end in ends for node in within.get(end, ())], way) != wanted:
            yield f"{way} is {'shut' if wanted else 'open'}"
    shut = {text(node.inputs, "metadata.namespace") for node in found if _refuses(node)}
    spaces = {text(node.inputs, "metadata.name") for node in world.of("Namespace")}
    yield from by_label(world, found)
    yield from (f"{name}: pods without a policy talk to everything" for name in sorted(spaces - shut))
    yield from (f"{node.name} opens every port, or every namespace" for node in found if _wide(node))


def _refuses(node: Node) -> bool:
    spec = mapping(node.inputs, "spec")
    whole = not mapping(spec, "podSelector") and set(items(spec, "policyTypes")) == {"Ingress", "Egress"}
    return whole and not items(spec, "ingress") and not items(spec, "egress")


def _wide(node: Node) -> bool:
    rules = [(rule, "from") for rule in items(node.inputs, "spec.ingress")]
    rules += [(rule, "to") for rule in items(node.inputs, "spec.egress")]
    return any(
        not items(rule, "ports")
        or not items(rule, other)
        or any(dig(one, "namespaceSelector") == {} for one in items(rule, other))
        for rule, other in rules
    )


def tiers(world: World) -> Iterator[str]:
    """Public subnets lead to the internet, private ones through the NAT of their own zone, those of data nowhere."""
    zones, needed = sorted(world.plan.zone_ids), Counter[str]()
    for group in world.of("NodeGroup"):
        most = number(group.inputs, "scalingConfig.maxSize") + number(group.inputs, "warmPoolConfig.minSize")
        needed.update({zone_of(node): int(most) for node in world.at(group, "subnetIds")})
    for tier in ("public", "private", "data"):
        stands = [node for node in world.of("Subnet") if world.tier(node) == tier]
        if sorted(map(zone_of, stands)) != zones:
            yield f"the {tier} tier stands in other zones than {zones}"
        for node in stands:
            wanted = {"public": {"internet"}, "private": {zone_of(node)}, "data": set()}[tier]
            held = ip_network(text(node.inputs, "cidrBlock")).num_addresses - 5
            short = tier == "private" and held < needed[zone_of(node)] * ADDRESSES_PER_NODE
            yield from when(
                (
                    not node.existing and ways_out(world, node) != wanted,
                    f"{node.name} leads to {sorted(ways_out(world, node)) or 'nowhere'}",
                ),
                (short, f"{node.name} has too few addresses for its pods"),
            )


def zone_of(node: Node) -> str:
    return text(node.inputs, "availabilityZoneId")


def ways_out(world: World, subnet: Node) -> set[str]:
    """Where a subnet's default routes lead: the internet, or the zone of a NAT."""
    tables = [
        table
        for link in world.of("RouteTableAssociation")
        if subnet in world.at(link, "subnetId")
        for table in world.at(link, "routeTableId")
    ]
    found = set()
    for route in world.of("Route"):
        if any(table in world.at(route, "routeTableId") for table in tables):
            if text(route.inputs, "destinationCidrBlock") != ANYWHERE:
                continue
            found |= {"internet"} if world.at(route, "gatewayId") else set()
            found |= {zone_of(home) for nat in world.at(route, "natGatewayId") for home in world.at(nat, "subnetId")}
    return found


def endpoints(world: World) -> Iterator[str]:
    """AWS's own services by private addresses, in each private subnet of ours, which the nodes may call."""
    prefix = f"com.amazonaws.{world.region}."
    found = {text(one.inputs, "serviceName").removeprefix(prefix): one for one in world.of("VpcEndpoint")}
    private = {node.urn for node in world.of("Subnet") if world.tier(node) == "private"}
    for service in CALLED_BY_NODES:
        node = found.get(service)
        if node is None or text(node.inputs, "vpcEndpointType") != "Interface":
            yield f"nodes call {service} over the NAT, or not at all"
        elif node.inputs.get("privateDnsEnabled") is not True or set(node.references["subnetIds"]) != private:
            yield f"the name of {service} leads past its endpoint, or a zone has none"
        elif not opened(world, "Ingress", items(node.inputs, "securityGroupIds"), 443, world.plan.cidr):
            yield f"the endpoint of {service} lets nobody in"
    tables = {node.urn for node in world.of("RouteTable") if node.name.startswith("private-")}
    store = found.get("s3")
    if store is None or not tables <= set(store.references.get("routeTableIds", ())):
        yield "model versions come over the NAT, at its price"
