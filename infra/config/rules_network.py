"""The address plan: one block per region, three zones each, and none overlapping another."""

from ipaddress import IPv4Network, ip_network
from itertools import combinations

from infra.config.existing import judge_named
from infra.config.model import Fleet, Region
from infra.config.problems import Problem

ZONES_PER_REGION = 3
VPC_PREFIX = 16

WITHOUT_EKS = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html, zones that a cluster's subnets can't be in"""

_ZONE_PREFIX = {
    "us-east-1": "use1",
    "us-east-2": "use2",
    "us-west-2": "usw2",
    "eu-central-1": "euc1",
    "eu-west-1": "euw1",
}


def judge_networks(fleet: Fleet) -> list[Problem]:
    """Faults in CIDRs, zones and the networks that may reach a cluster."""
    problems = [problem for region in fleet.regions for problem in (*_cidr(region), *_zones(region))]
    problems += _overlaps(fleet)
    for region in fleet.regions:
        if region.existing:
            problems += judge_named(region.name, region.zone_ids, region.existing)
    problems += [
        Problem(
            key="environment.allowed_networks",
            fault=f"holds {network}",
            remedy="list private networks only; the cluster endpoint has no public face",
        )
        for network in fleet.environment.allowed_networks
        if not _private(network)
    ]
    return problems


def _cidr(region: Region) -> list[Problem]:
    network = _parsed(region.cidr)
    fits = network is not None and (region.existing or network.prefixlen == VPC_PREFIX)
    if network is None or not fits or not network.is_private:
        return [
            Problem(
                key=f"{region.name}.cidr",
                fault=f"is {region.cidr}",
                remedy=f"give a private /{VPC_PREFIX} on its boundary, such as 10.16.0.0/16",
            )
        ]
    return []


def _zones(region: Region) -> list[Problem]:
    key = f"{region.name}.zone_ids"
    if len(set(region.zone_ids)) != ZONES_PER_REGION:
        return [Problem(key=key, fault=f"is {list(region.zone_ids)}", remedy="give three different zone ids")]
    prefix = _ZONE_PREFIX.get(region.name)
    if prefix is None:
        return [Problem(key=region.name, fault="is a region without a zone table", remedy="add it to rules_network")]
    strange = [
        Problem(key=key, fault=f"{zone} is not in {region.name}", remedy=f"use ids that start with {prefix}-az")
        for zone in region.zone_ids
        if not zone.startswith(f"{prefix}-az")
    ]
    barred = [
        Problem(key=key, fault=f"{zone} takes no cluster of EKS", remedy="use another zone of the region")
        for zone in region.zone_ids
        if zone in WITHOUT_EKS
    ]
    return strange + barred


def _overlaps(fleet: Fleet) -> list[Problem]:
    problems = []
    for left, right in combinations(fleet.regions, 2):
        one, other = _parsed(left.cidr), _parsed(right.cidr)
        if one and other and one.overlaps(other):
            problems.append(
                Problem(
                    key=f"{right.name}.cidr",
                    fault=f"{right.cidr} overlaps {left.name}.cidr {left.cidr}",
                    remedy="choose a block that no other region uses",
                )
            )
    return problems


def _private(network: str) -> bool:
    parsed = _parsed(network)
    return parsed is not None and parsed.is_private


def _parsed(cidr: str) -> IPv4Network | None:
    try:
        network = ip_network(cidr)
    except ValueError:
        return None
    return network if isinstance(network, IPv4Network) else None
