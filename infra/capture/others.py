"""What the cloud says of networks and clusters of others, if all fits the config: prices and proofs need no account."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network

from infra.config.existing import SERVICE_NETWORKS, Existing
from infra.config.kinds import Tier
from infra.config.model import Fleet, Region
from infra.graph.values import Json

Cloud = Mapping[str, Mapping[str, Json] | None]
"""Answers by question (`type id`); nothing if the cloud knows no such thing."""
ANYWHERE = "0.0.0.0/0"
TARGETS = (
    "gatewayId",
    "natGatewayId",
    "transitGatewayId",
    "vpcEndpointId",
    "coreNetworkArn",
    "networkInterfaceId",
)


def route(**target: str) -> dict[str, Json]:
    """A default route as EC2 describes it."""
    return {"cidrBlock": ANYWHERE, **dict.fromkeys(TARGETS, ""), **target}


ROUTES: Mapping[Tier, list[Json]] = {
    Tier.PUBLIC: [route(gatewayId="igw-1")],
    Tier.PRIVATE: [route(natGatewayId="nat-1")],
    Tier.DATA: [],
}


def fitting(fleet: Fleet, region: Region) -> Cloud:
    """Every question that a region's program asks, with an answer that fits; none without `existing`."""
    existing = region.existing
    if existing is None:
        return {}
    return dict([*_network(fleet, region, existing), *(_cluster(fleet, existing) if existing.cluster else ())])


def blocks(cidr: str, zones: tuple[str, ...]) -> Mapping[Tier, Mapping[str, str]]:
    """A quarter of the network for each zone's nodes, and small parts of the last one for the other tiers."""
    *large, rest = IPv4Network(cidr).subnets(prefixlen_diff=2)
    small = list(rest.subnets(prefixlen_diff=4))
    parts = {Tier.PRIVATE: large, Tier.PUBLIC: small, Tier.DATA: small[8:]}
    return {tier: dict(zip(zones, map(str, found), strict=False)) for tier, found in parts.items()}


def _network(fleet: Fleet, region: Region, existing: Existing) -> Iterator[tuple[str, Mapping[str, Json]]]:
    vpc: Mapping[str, Json] = {
        "cidrBlock": region.cidr,
        "cidrBlockAssociations": [
            {"cidrBlock": region.cidr, "associationId": "vpc-cidr-assoc-1", "state": "associated"}
        ],
        "enableDnsHostnames": True,
        "enableDnsSupport": True,
        "mainRouteTableId": "rtb-main",
    }
    yield f"aws:ec2/getVpc:getVpc {existing.vpc_id}", vpc
    yield f"aws:ec2/vpc:Vpc {existing.vpc_id}", vpc
    tables = {tier: f"rtb-{tier}" for tier in Tier}
    yield f"aws:ec2/getRouteTables:getRouteTables {existing.vpc_id}", {"ids": ["rtb-main", *tables.values()]}
    yield (
        "aws:ec2/getRouteTable:getRouteTable rtb-main",
        {"routes": [], "associations": [{"subnetId": "", "main": True}]},
    )
    for tier, table in tables.items():
        held: list[Json] = [{"subnetId": name, "main": False} for name in existing.of(tier).values()]
        yield f"aws:ec2/getRouteTable:getRouteTable {table}", {"routes": ROUTES[tier], "associations": held}
    held_by = blocks(region.cidr, region.zone_ids)
    for one in existing.subnets:
        subnet: Mapping[str, Json] = {
            "vpcId": existing.vpc_id,
            "availabilityZoneId": one.zone_id,
            "availabilityZone": f"zone-of-{one.zone_id}",
            "cidrBlock": held_by[one.tier][one.zone_id],
            "mapPublicIpOnLaunch": False,
            "availableIpAddressCount": 4000,
            "tags": {"environment": fleet.environment.name, "zone": one.zone_id},
        }
        yield f"aws:ec2/getSubnet:getSubnet {one.id}", subnet
        yield f"aws:ec2/subnet:Subnet {one.id}", subnet


def _cluster(fleet: Fleet, existing: Existing) -> Iterator[tuple[str, Mapping[str, Json]]]:
    pins, name = fleet.environment.kubernetes, existing.cluster
    state: Mapping[str, Json] = {
        "name": name,
        "version": pins.version,
        "status": "ACTIVE",
        "endpoint": f"https://{name}.eks",
        "vpcConfig": {
            "vpcId": existing.vpc_id,
            "clusterSecurityGroupId": "sg-cluster",
            "endpointPrivateAccess": True,
        },
        "accessConfigs": [{"authenticationMode": "API"}],
        "certificateAuthority": {"data": "QQ=="},
        "kubernetesNetworkConfigs": [{"serviceIpv4Cidr": SERVICE_NETWORKS[0]}],
    }
    yield f"aws:eks/getCluster:getCluster {name}", state
    yield f"aws:eks/cluster:Cluster {name}", state
    for addon, version in pins.addons.items():
        told: Mapping[str, Json] = {
            "addonName": addon,
            "addonVersion": version,
            "clusterName": name,
            "configurationValues": '{"enableNetworkPolicy": "true"}' if addon == "vpc-cni" else "",
            "podIdentityAssociations": [{"serviceAccount": "its-own", "roleArn": existing.volumes_role}],
        }
        yield f"aws:eks/getAddon:getAddon {addon} {name}", told
        yield f"aws:eks/addon:Addon {name}:{addon}", told
