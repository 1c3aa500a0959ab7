"""Asks the cloud about a network and a cluster of others. The only questions that a program asks (ADR 0129)."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import pulumi
import pulumi_aws as aws
from pulumi_aws.ec2.outputs import GetRouteTableRouteResult

from infra.config.existing import Existing, Found, FoundCluster, FoundSubnet
from infra.config.model import Fleet
from infra.config.problems import ConfigRefusedError, Problem

ANYWHERE = "0.0.0.0/0"
T = TypeVar("T")


class Questions:
    """Questions to AWS; a name that it does not know is a refusal with field and remedy, and the next one is asked."""

    def __init__(self, region: str, provider: pulumi.ProviderResource) -> None:
        self.key = f"{region}.existing"
        self.asked = pulumi.InvokeOptions(provider=provider)
        self.problems: list[Problem] = []

    def ask(self, key: str, question: Callable[[], T], remedy: str) -> T | None:
        """The answer, or nothing and a problem in AWS's words."""
        try:
            return question()
        except Exception as untold:  # noqa: BLE001 - the SDK raises no narrower one for a provider's error
            self.problems.append(Problem(key=f"{self.key}.{key}", fault=f"AWS tells nothing: {untold}", remedy=remedy))
            return None


def look(
    fleet: Fleet, region: str, existing: Existing, provider: pulumi.ProviderResource
) -> tuple[Found, list[Problem]]:
    """The description, and add-ons that AWS does not know. Raises `ConfigRefusedError` at any other unknown name."""
    questions = Questions(region, provider)
    vpc = questions.ask(
        "vpc_id",
        partial(aws.ec2.get_vpc, id=existing.vpc_id, opts=questions.asked),
        "name a VPC of this account and region, which you may describe",
    )
    subnets = _subnets(questions, existing, vpc.main_route_table_id) if vpc else {}
    cluster = _cluster(questions, fleet, existing.cluster) if existing.cluster else None
    if vpc is None or len(subnets) < len(existing.subnets) or (existing.cluster and cluster is None):
        raise ConfigRefusedError(questions.problems)
    found = Found(
        cidrs=tuple(one.cidr_block for one in vpc.cidr_block_associations),
        dns_hostnames=vpc.enable_dns_hostnames,
        dns_support=vpc.enable_dns_support,
        subnets=subnets,
        cluster=cluster,
    )
    return found, questions.problems


def _subnets(questions: Questions, existing: Existing, main: str) -> Mapping[str, FoundSubnet]:
    ways = _ways(questions, existing.vpc_id)
    subnets = {}
    for one in existing.subnets:
        found = questions.ask(
            f"subnets({one.id})",
            partial(aws.ec2.get_subnet, id=one.id, opts=questions.asked),
            f"name a subnet of {existing.vpc_id}",
        )
        if found:
            subnets[one.id] = FoundSubnet(
                vpc_id=found.vpc_id,
                zone_id=found.availability_zone_id,
                cidr=found.cidr_block,
                way_out=ways.get(one.id, ways.get(main, "")),
                gives_public_addresses=found.map_public_ip_on_launch,
                free_addresses=found.available_ip_address_count,
                tags=found.tags,
            )
    return subnets


def _ways(questions: Questions, vpc_id: str) -> dict[str, str]:
    """The target of each route table's default route, by its own id and by those of its subnets."""
    held = questions.ask(
        "vpc_id",
        partial(aws.ec2.get_route_tables, vpc_id=vpc_id, opts=questions.asked),
        "get a right to ec2:DescribeRouteTables",
    )
    ways = {}
    for name in held.ids if held else ():
        table = aws.ec2.get_route_table(route_table_id=name, opts=questions.asked)
        targets = [_target(route) for route in table.routes if route.cidr_block == ANYWHERE]
        for user in (name, *(one.subnet_id for one in table.associations if one.subnet_id)):
            ways[user] = next(iter(targets), "")
    return ways


def _target(route: GetRouteTableRouteResult) -> str:
    return (
        route.gateway_id
        or route.nat_gateway_id
        or route.transit_gateway_id
        or route.vpc_endpoint_id
        or route.core_network_arn
        or route.network_interface_id
    )


def _cluster(questions: Questions, fleet: Fleet, name: str) -> FoundCluster | None:
    found = questions.ask(
        "cluster",
        partial(aws.eks.get_cluster, name=name, opts=questions.asked),
        "name a cluster of this account and region, or leave it out: one is made",
    )
    if found is None:
        return None
    answers = {
        addon: questions.ask(
            f"cluster.{addon}",
            partial(aws.eks.get_addon, addon_name=addon, cluster_name=name, opts=questions.asked),
            f"aws eks create-addon --cluster-name {name} --addon-name {addon} --addon-version {version}",
        )
        for addon, version in fleet.environment.kubernetes.addons.items()
    }
    addons = {addon: one for addon, one in answers.items() if one}
    network = json.loads(addons["vpc-cni"].configuration_values or "{}") if "vpc-cni" in addons else {}
    services = [one.service_ipv4_cidr for one in found.kubernetes_network_configs]
    return FoundCluster(
        status=found.status,
        version=found.version,
        vpc_id=found.vpc_config.vpc_id,
        authentication=found.access_configs[0].authentication_mode if found.access_configs else "CONFIG_MAP",
        answers_privately=found.vpc_config.endpoint_private_access,
        services=next(iter(services), ""),
        addons={addon: one.addon_version for addon, one in addons.items()},
        keeps_network_policies=str(network.get("enableNetworkPolicy", "")).lower() == "true",
    )
