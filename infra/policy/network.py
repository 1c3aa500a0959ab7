"""The network: nothing open but the load balancer, a NAT per zone, private ways to AWS, and addresses for every pod."""

from collections.abc import Iterator
from ipaddress import ip_network
from itertools import combinations

from infra.components.addresses import ADDRESSES_PER_NODE
from infra.config.kinds import StackKind
from infra.config.zones import pool_zones
from infra.graph.nodes import Node
from infra.graph.values import UNKNOWN, items, number, text
from infra.policy.invariant import Book, Breach
from infra.policy.view import View

book = Book()

OPEN = ("0.0.0.0/0", "::/0")
ALB_GROUP = "alb"
HTTPS = 443
SUBNET = "aws:ec2/subnet:Subnet"
REQUIRED_ENDPOINTS = (
    "ecr.api",
    "ecr.dkr",
    "sts",
    "kms",
    "secretsmanager",
    "logs",
    "ec2",
    "eks-auth",
    "autoscaling",
)


def _tier(view: View, tier: str) -> list[Node]:
    return [node for node in view.of(SUBNET) if text(node.inputs, "tags.tier") == tier]


@book.rule("no-open-ingress", "Nothing is open to the world but the load balancer's 443")
def no_open_ingress(view: View) -> Iterator[Breach]:
    for node in view.of("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"):
        exposed = text(node.inputs, "cidrIpv4") in OPEN or text(node.inputs, "cidrIpv6") in OPEN
        group = node.references.get("securityGroupId", ())
        balancer = any(urn.endswith(f"::{ALB_GROUP}") for urn in group)
        if exposed and not (balancer and number(node.inputs, "fromPort") == number(node.inputs, "toPort") == HTTPS):
            yield node, "name the network or the group that may come in"
    for node in view.of("aws:ec2/securityGroup:SecurityGroup"):
        if any(str(block) in OPEN for rule in items(node.inputs, "ingress") for block in items(rule, "cidrBlocks")):
            yield node, "write rules as resources of their own"


@book.rule("default-group-empty", "The default security group allows nothing", StackKind.REGION)
def default_group_empty(view: View) -> Iterator[Breach]:
    found = list(view.of("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"))
    if not found:
        yield None, "adopt the VPC's default security group without rules"
    for node in found:
        if items(node.inputs, "ingress") or items(node.inputs, "egress"):
            yield node, "remove the rules"


@book.rule("own-zone-nat", "Every private subnet leaves through the NAT of its own zone", StackKind.REGION)
def own_zone_nat(view: View) -> Iterator[Breach]:
    nats = {node.urn: text(node.inputs, "tags.zone") for node in view.of("aws:ec2/natGateway:NatGateway")}
    through = {
        table: nats[nat]
        for route in view.of("aws:ec2/route:Route")
        for table in route.references.get("routeTableId", ())
        for nat in route.references.get("natGatewayId", ())
    }
    for subnet in _tier(view, "private"):
        tables = view.companions("aws:ec2/routeTableAssociation:RouteTableAssociation", "subnetId", subnet)
        zones = {through.get(urn) for table in tables for urn in table.references.get("routeTableId", ())}
        if zones != {text(subnet.inputs, "availabilityZoneId")}:
            yield subnet, "route the subnet through the NAT of its own zone"


@book.rule("data-tier-closed", "The data tier has no route out at all", StackKind.REGION)
def data_tier_closed(view: View) -> Iterator[Breach]:
    routed = {urn for route in view.of("aws:ec2/route:Route") for urn in route.references.get("routeTableId", ())}
    for subnet in _tier(view, "data"):
        for table in view.companions("aws:ec2/routeTableAssociation:RouteTableAssociation", "subnetId", subnet):
            if routed & set(table.references.get("routeTableId", ())):
                yield subnet, "take the route out of the data tier's table"


@book.rule("three-zones", "Each tier stands in the region's three zones", StackKind.REGION)
def three_zones(view: View) -> Iterator[Breach]:
    for tier in ("public", "private", "data"):
        zones = sorted(text(node.inputs, "availabilityZoneId") for node in _tier(view, tier))
        if zones != sorted(view.region.zone_ids):
            yield None, f"the {tier} tier stands in {zones}; give it one subnet in each of {list(view.region.zone_ids)}"


@book.rule("blocks-apart", "No address block overlaps another, in the region or between regions", StackKind.REGION)
def blocks_apart(view: View) -> Iterator[Breach]:
    for one, other in combinations(view.of(SUBNET), 2):
        if _overlap(text(one.inputs, "cidrBlock"), text(other.inputs, "cidrBlock")):
            yield other, f"overlaps {one.name}"
    for vpc in view.of("aws:ec2/vpc:Vpc"):
        for region in view.fleet.regions:
            if region.name != view.region_name and _overlap(text(vpc.inputs, "cidrBlock"), region.cidr):
                yield vpc, f"overlaps {region.name}"


def _overlap(one: str, other: str) -> bool:
    return UNKNOWN not in (one, other) and ip_network(one).overlaps(ip_network(other))


@book.rule("s3-gateway", "S3 is reached privately from every private route table", StackKind.REGION)
def s3_gateway(view: View) -> Iterator[Breach]:
    gateways = [
        node
        for node in view.of("aws:ec2/vpcEndpoint:VpcEndpoint")
        if text(node.inputs, "vpcEndpointType") == "Gateway" and text(node.inputs, "serviceName").endswith(".s3")
    ]
    covered = {urn for node in gateways for urn in node.references.get("routeTableIds", ())}
    for table in view.of("aws:ec2/routeTable:RouteTable"):
        if table.name.startswith("private-") and table.urn not in covered:
            yield table, "add the route table to the S3 gateway endpoint"


@book.rule("private-aws", "The AWS services that nodes and pods need have interface endpoints", StackKind.REGION)
def private_aws(view: View) -> Iterator[Breach]:
    prefix = f"com.amazonaws.{view.region_name}."
    found = {
        text(node.inputs, "serviceName").removeprefix(prefix)
        for node in view.of("aws:ec2/vpcEndpoint:VpcEndpoint")
        if text(node.inputs, "vpcEndpointType") == "Interface" and node.inputs.get("privateDnsEnabled") is True
    }
    for service in REQUIRED_ENDPOINTS:
        if service not in found:
            yield None, f"add an interface endpoint with private DNS for {service}"


@book.rule("flow-logs", "Every VPC logs all its flows", StackKind.REGION)
def flow_logs(view: View) -> Iterator[Breach]:
    for vpc in view.of("aws:ec2/vpc:Vpc"):
        logs = view.companions("aws:ec2/flowLog:FlowLog", "vpcId", vpc)
        if not any(text(log.inputs, "trafficType") == "ALL" for log in logs):
            yield vpc, "add a flow log of ALL traffic"


@book.rule(
    "addresses-for-pods", "Private subnets hold every pool at its maximum, warm machines included", StackKind.REGION
)
def addresses_for_pods(view: View) -> Iterator[Breach]:
    nodes = dict.fromkeys(view.region.zone_ids, 0)
    for pool in view.region.pools:
        zones = pool_zones(view.region, pool)
        waiting = pool.warm_pool.min_size if pool.warm_pool else 0
        for zone in zones:
            nodes[zone] += -(-(pool.max_size + waiting) // len(zones))
    for subnet in _tier(view, "private"):
        need = nodes.get(text(subnet.inputs, "availabilityZoneId"), 0) * ADDRESSES_PER_NODE
        if ip_network(text(subnet.inputs, "cidrBlock")).num_addresses - 5 < need:
            yield subnet, f"needs {need} addresses: widen the block or lower a pool's max_size"
