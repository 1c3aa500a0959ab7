"""Asks the cloud about a network and a cluster of others. The only questions that a program asks (ADR 0129)."""

import json

import pulumi
import pulumi_aws as aws
from pulumi_aws.ec2.outputs import GetRouteTableRouteResult

from infra.config.existing import Existing, Found, FoundCluster, FoundSubnet
from infra.config.model import Fleet

ANYWHERE = "0.0.0.0/0"


def look(fleet: Fleet, existing: Existing, provider: pulumi.ProviderResource) -> tuple[Found, list[str]]:
    """Return the description, and route tables of private subnets. The engine ends the update at an unknown name."""
    asked = pulumi.InvokeOptions(provider=provider)
    vpc = aws.ec2.get_vpc(id=existing.vpc_id, opts=asked)
    subnets, tables = {}, []
    for one in existing.subnets:
        found = aws.ec2.get_subnet(id=one.id, opts=asked)
        table = aws.ec2.get_route_table(subnet_id=one.id, opts=asked)
        ways = [route for route in table.routes if route.cidr_block == ANYWHERE]
        subnets[one.id] = FoundSubnet(
            vpc_id=found.vpc_id,
            zone_id=found.availability_zone_id,
            way_out=next((_target(route) for route in ways), ""),
            gives_public_addresses=found.map_public_ip_on_launch,
            free_addresses=found.available_ip_address_count,
            tags=found.tags,
        )
        if one.tier == "private":
            tables.append(table.route_table_id)
    seen = Found(
        cidr=vpc.cidr_block,
        dns_hostnames=vpc.enable_dns_hostnames,
        dns_support=vpc.enable_dns_support,
        subnets=subnets,
        cluster=_cluster(fleet, existing.cluster, asked) if existing.cluster else None,
    )
    return seen, sorted(set(tables))


def _target(route: GetRouteTableRouteResult) -> str:
    return route.gateway_id or route.nat_gateway_id or route.transit_gateway_id or route.network_interface_id


def _cluster(fleet: Fleet, name: str, asked: pulumi.InvokeOptions) -> FoundCluster:
    found = aws.eks.get_cluster(name=name, opts=asked)
    addons = {
        addon: aws.eks.get_addon(addon_name=addon, cluster_name=name, opts=asked)
        for addon in fleet.environment.kubernetes.addons
    }
    network = json.loads(addons["vpc-cni"].configuration_values or "{}")
    return FoundCluster(
        status=found.status,
        version=found.version,
        vpc_id=found.vpc_config.vpc_id,
        authentication=found.access_configs[0].authentication_mode if found.access_configs else "CONFIG_MAP",
        answers_privately=found.vpc_config.endpoint_private_access,
        addons={addon: one.addon_version for addon, one in addons.items()},
        keeps_network_policies=str(network.get("enableNetworkPolicy", "")).lower() == "true",
    )
