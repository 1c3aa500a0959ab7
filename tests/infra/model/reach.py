"""Who reaches whom: network policies as Kubernetes decides them, security groups and routes as EC2 does."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import combinations
from pathlib import Path

import yaml

from infra.components.addresses import ADDRESSES_PER_NODE
from infra.graph.nodes import Node
from infra.graph.values import Json, dig, items, mapping, number, text
from infra.rendered.checked_in import facts
from tests.infra.model.world import World, when

TABLE: dict[str, list[list[object]]] = yaml.safe_load(
    Path(__file__).parents[1].joinpath("reach.yaml").read_text(encoding="utf-8")
)
CARRIED: dict[tuple[str, str], dict[str, str]] = {
    (one["namespace"], one["labels"].get("app.kubernetes.io/name", "")): one["labels"]
    for chart in facts().values()
    for one in chart["workloads"]
}
"""The labels that pods of charts really carry."""
UNGUARDED = ("kube-system",)
"""Namespaces of the cluster's own, where no policy of ours stands."""
ANYWHERE = "0.0.0.0/0"
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


def network(world: World) -> Iterator[str]:
    """Tiers, zones and ways out: what each subnet reaches, and what may come to it."""
    yield from policies(world)
    yield from tiers(world)
    yield from endpoints(world)
    blocks = {one.name: ip_network(text(one.inputs, "cidrBlock")) for one in world.of("Subnet")}
    whole = ip_network(text(world.the("Vpc").inputs, "cidrBlock"))
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
        stands = [node for node in world.of("Subnet") if text(node.inputs, "tags.tier") == tier]
        if sorted(map(zone_of, stands)) != zones:
            yield f"the {tier} tier stands in other zones than {zones}"
        for node in stands:
            wanted = {"public": {"internet"}, "private": {zone_of(node)}, "data": set()}[tier]
            held = ip_network(text(node.inputs, "cidrBlock")).num_addresses - 5
            short = tier == "private" and held < needed[zone_of(node)] * ADDRESSES_PER_NODE
            yield from when(
                (ways_out(world, node) != wanted, f"{node.name} leads to {sorted(ways_out(world, node)) or 'nowhere'}"),
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
    """AWS's own services by private addresses, in each private subnet, which the nodes may call."""
    prefix = f"com.amazonaws.{world.region}."
    found = {text(one.inputs, "serviceName").removeprefix(prefix): one for one in world.of("VpcEndpoint")}
    private = {node.urn for node in world.of("Subnet") if text(node.inputs, "tags.tier") == "private"}
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
