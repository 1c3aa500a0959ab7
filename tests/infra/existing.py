"""A network and a cluster of others, for dev: what the config names, and what the cloud says of each."""

from dataclasses import replace
from typing import Any

from infra.components.addresses import Plan
from infra.config.existing import Existing, ExistingSubnet
from infra.config.kinds import Tier
from infra.config.load import load
from infra.config.model import Fleet

VPC, CLUSTER = "vpc-0a1b2c3d", "shared"
WAYS = ("gatewayId", "natGatewayId", "transitGatewayId", "networkInterfaceId")
NOWHERE = {"cidrBlock": "0.0.0.0/0"} | dict.fromkeys(WAYS, "")
INTERNET, NAT = NOWHERE | {"gatewayId": "igw-1"}, NOWHERE | {"natGatewayId": "nat-1"}
Cloud = dict[str, dict[str, Any]]


def named(*, cluster: str = CLUSTER, endpoints: tuple[str, ...] = ()) -> Fleet:
    """Return dev with everything of others, but for what is left out."""
    fleet = load("dev")
    (region,) = fleet.regions
    subnets = tuple(
        ExistingSubnet(id=f"subnet-{tier}-{zone}", zone_id=zone, tier=tier) for tier in Tier for zone in region.zone_ids
    )
    existing = Existing(vpc_id=VPC, subnets=subnets, endpoints=endpoints, cluster=cluster)
    return replace(fleet, regions=(replace(region, existing=existing),))


def cloud(fleet: Fleet) -> Cloud:
    """Return what EC2 and EKS say: everything fits."""
    (region,) = fleet.regions
    assert region.existing is not None
    plan = Plan(cidr=region.cidr, zone_ids=region.zone_ids)
    blocks = {Tier.PUBLIC: plan.public(), Tier.PRIVATE: plan.private(), Tier.DATA: plan.data()}
    vpc = {"cidrBlock": region.cidr, "enableDnsHostnames": True, "enableDnsSupport": True}
    found: Cloud = {f"aws:ec2/getVpc:getVpc {VPC}": vpc, f"aws:ec2/vpc:Vpc {VPC}": vpc}
    for one in region.existing.subnets:
        subnet = {
            "vpcId": VPC,
            "availabilityZoneId": one.zone_id,
            "availabilityZone": f"zone-of-{one.zone_id}",
            "cidrBlock": blocks[one.tier][one.zone_id],
            "mapPublicIpOnLaunch": False,
            "availableIpAddressCount": 4000,
            "tags": {"environment": fleet.environment.name, "zone": one.zone_id},
        }
        routes = {Tier.PUBLIC: [INTERNET], Tier.PRIVATE: [NAT], Tier.DATA: []}[one.tier]
        found[f"aws:ec2/getSubnet:getSubnet {one.id}"] = found[f"aws:ec2/subnet:Subnet {one.id}"] = subnet
        found[f"aws:ec2/getRouteTable:getRouteTable {one.id}"] = {
            "routes": routes,
            "routeTableId": f"rtb-{one.id}",
        }
    return found | _cluster(fleet)


def _cluster(fleet: Fleet) -> Cloud:
    pins = fleet.environment.kubernetes
    network = {"vpcId": VPC, "clusterSecurityGroupId": "sg-cluster", "endpointPrivateAccess": True}
    state: dict[str, Any] = {
        "name": CLUSTER,
        "version": pins.version,
        "status": "ACTIVE",
        "endpoint": "https://shared.eks",
        "vpcConfig": network,
        "accessConfigs": [{"authenticationMode": "API"}],
        "certificateAuthority": {"data": "QQ=="},
    }
    found: Cloud = {f"aws:eks/getCluster:getCluster {CLUSTER}": state}
    found[f"aws:eks/cluster:Cluster {CLUSTER}"] = state
    for name, version in pins.addons.items():
        told = {
            "addonName": name,
            "addonVersion": version,
            "clusterName": CLUSTER,
            "configurationValues": '{"enableNetworkPolicy": "true"}' if name == "vpc-cni" else "",
            "podIdentityAssociations": [{"serviceAccount": "its-own", "roleArn": "arn:aws:iam::444455556666:role/x"}],
        }
        found[f"aws:eks/getAddon:getAddon {name} {CLUSTER}"] = told
        found[f"aws:eks/addon:Addon {CLUSTER}:{name}"] = told
    return found
