"""A network, and perhaps a cluster, that others made: their names in the config, and facts that refuse a deployment.

They are read and never changed: a fact that does not fit is told with its remedy, before any resource exists.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network

from infra.config.kinds import Tier
from infra.config.problems import Problem

PODS_PER_SUBNET = 64
"""Addresses that the first node of a zone may take; a subnet with fewer free ones starts nothing."""
FIREWALL = "vpce-"
"""A default route to a firewall's endpoint: public if an internet gateway is behind it, a way out elsewhere."""
BY_API = ("API", "API_AND_CONFIG_MAP")
"""Ways of authentication that know access entries, which the nodes' role joins by."""
SERVICE_NETWORKS = ("10.100.0.0/16", "172.20.0.0/16")
"""What EKS gives services' addresses of, whichever does not overlap with the VPC; network policies open the API there:
https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingSubnet:
    """One subnet and its use."""

    id: str
    zone_id: str
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Existing:
    """A VPC with a subnet for each tier and zone, and its cluster if it has one.

    The cluster's security group, authority and endpoint are read. No OpenID Connect provider is named: pods get their
    roles by EKS Pod Identity, and no role of ours trusts such a provider. `volumes_role` is the ARN of the role of the
    cluster's EBS driver: it may use our key for the volumes of our pods.
    """

    vpc_id: str
    subnets: tuple[ExistingSubnet, ...]
    cluster: str = ""
    volumes_role: str = ""

    def of(self, tier: Tier) -> dict[str, str]:
        """Zone id to the subnet of a tier."""
        return {one.zone_id: one.id for one in self.subnets if one.tier is tier}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSubnet:
    """A subnet as EC2 describes it; `way_out` is the target of its default route."""

    vpc_id: str
    zone_id: str
    cidr: str
    way_out: str
    gives_public_addresses: bool
    free_addresses: int
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """A cluster as EKS describes it, with its add-ons by name and the network of its services."""

    status: str
    version: str
    vpc_id: str
    authentication: str
    answers_privately: bool
    services: str
    addons: Mapping[str, str]
    keeps_network_policies: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that was named, as the cloud describes it."""

    cidrs: tuple[str, ...]
    dns_hostnames: bool
    dns_support: bool
    subnets: Mapping[str, FoundSubnet] = field(default_factory=dict)
    cluster: FoundCluster | None = None


def judge_named(region: str, zone_ids: tuple[str, ...], existing: Existing) -> Iterator[Problem]:
    """Faults in the names alone: each tier has one subnet in each of the region's zones."""
    key = f"{region}.existing.subnets"
    for tier in Tier:
        zones = Counter(one.zone_id for one in existing.subnets if one.tier is tier)
        if zones != Counter(zone_ids):
            yield Problem(
                key=key,
                fault=f"has {tier} in {', '.join(sorted(zones.elements())) or 'no zone'}",
                remedy=f"give one {tier} subnet in each of {', '.join(zone_ids)}: one zone alone is no region",
            )
    yield from (
        Problem(key=key, fault=f"{name} stands {count} times", remedy="give each tier and zone a subnet of its own")
        for name, count in Counter(one.id for one in existing.subnets).items()
        if count > 1
    )
    if existing.cluster and not existing.volumes_role:
        driver = f"--cluster-name {existing.cluster} --addon-name aws-ebs-csi-driver"
        yield Problem(
            key=f"{region}.existing.volumes_role",
            fault="is missing: the driver of volumes has no right to the key that they are encrypted with",
            remedy=f"give its role's ARN: `aws eks describe-addon {driver}` shows it, or the association that it names",
        )


def judge_found(
    place: tuple[str, str, str], existing: Existing, found: Found, pins: tuple[str, Mapping[str, str]]
) -> list[Problem]:
    """Faults in what the cloud says. `place` is region, environment and CIDR, `pins` the minor and the add-ons."""
    region, environment, cidr = place
    key = f"{region}.existing"
    problems = []
    if cidr not in found.cidrs:
        fault = f"is {cidr}, the VPC has {', '.join(found.cidrs)}"
        problems.append(Problem(key=f"{region}.cidr", fault=fault, remedy="write the one that the subnets lie in"))
    if not (found.dns_hostnames and found.dns_support):
        change = f"aws ec2 modify-vpc-attribute --vpc-id {existing.vpc_id} --enable-dns-hostnames"
        problems.append(
            Problem(
                key=f"{key}.vpc_id",
                fault="gives no DNS host names: names of endpoints and of the cluster lead nowhere",
                remedy=f"switch them on: {change}",
            )
        )
    for one in existing.subnets:
        problems += _subnet(
            f"{key}.subnets({one.id})", (environment, cidr), existing.vpc_id, one, found.subnets[one.id]
        )
    if found.cluster:
        problems += _cluster(f"{key}.cluster", existing, found.cluster, pins)
    return problems


def _subnet(
    key: str, place: tuple[str, str], vpc_id: str, named: ExistingSubnet, found: FoundSubnet
) -> Iterator[Problem]:
    environment, cidr = place
    public = found.way_out.startswith("igw-")
    wanted = {"environment": environment, "zone": named.zone_id}
    lacking = " ".join(f"Key={name},Value={value}" for name, value in wanted.items() if found.tags.get(name) != value)
    for wrong, fault, remedy in (
        (found.vpc_id != vpc_id, f"is in {found.vpc_id}", f"give a subnet of {vpc_id}"),
        (found.zone_id != named.zone_id, f"is in {found.zone_id}", "correct its `zone_id`"),
        (
            not ip_network(found.cidr).subnet_of(ip_network(cidr)),  # type: ignore[arg-type]
            f"has {found.cidr}, outside of `cidr`: stores and network policies admit that range alone",
            f"give a subnet of {cidr}, or write the range that holds all nine",
        ),
        (
            named.tier is Tier.PUBLIC and not public and not found.way_out.startswith(FIREWALL),
            f"is no public subnet: its default route leads to {found.way_out or 'nothing'}",
            "give one with a route of 0.0.0.0/0 to an internet gateway or a firewall: the load balancer stands there",
        ),
        (
            named.tier is not Tier.PUBLIC and (public or found.gives_public_addresses),
            f"is public, and named {named.tier}: {'nodes' if named.tier is Tier.PRIVATE else 'databases'} stand there",
            "give one whose default route leads to a NAT or a transit gateway, without public addresses",
        ),
        (
            named.tier is Tier.PRIVATE and not found.way_out,
            "has no way out: nodes reach no API of AWS that has no endpoint",
            "give its route table a default route to a NAT, a transit gateway or a firewall",
        ),
        (
            named.tier is Tier.PRIVATE and found.free_addresses < PODS_PER_SUBNET,
            f"has {found.free_addresses} free addresses",
            f"give one with {PODS_PER_SUBNET} for each node of its zone",
        ),
        (
            lacking,
            "lacks tags that the drill of a lost zone finds its subnets by",
            f"aws ec2 create-tags --resources {named.id} --tags {lacking}",
        ),
    ):
        if wrong:
            yield Problem(key=key, fault=fault, remedy=remedy)


def _cluster(
    key: str, existing: Existing, found: FoundCluster, pins: tuple[str, Mapping[str, str]]
) -> Iterator[Problem]:
    version, addons = pins
    for wrong, fault, remedy in (
        (found.status != "ACTIVE", f"is {found.status}", "wait until it is ACTIVE"),
        (
            found.version != version,
            f"runs {found.version}, the pins are of {version}",
            "raise the cluster, or set `kubernetes.version` with the add-ons and images of its minor",
        ),
        (found.vpc_id != existing.vpc_id, f"stands in {found.vpc_id}", "name the cluster of this VPC"),
        (
            found.authentication not in BY_API,
            f"authenticates by {found.authentication}: the nodes' role can't join",
            f"aws eks update-cluster-config --name {existing.cluster} --access-config authenticationMode={BY_API[1]}",
        ),
        (
            found.services not in SERVICE_NETWORKS,
            f"gives services addresses of {found.services or 'IPv6'}: network policies don't open its API",
            f"name a cluster with {' or '.join(SERVICE_NETWORKS)}, or leave `cluster` out: one is made",
        ),
        (not found.answers_privately, "has no private endpoint", "switch `endpointPrivateAccess` on"),
        (
            not found.keeps_network_policies,
            "enforces no network policies",
            """set `{"enableNetworkPolicy": "true"}` as configuration of its add-on vpc-cni""",
        ),
    ):
        if wrong:
            yield Problem(key=key, fault=fault, remedy=remedy)
    for name, there in found.addons.items():
        if not there.startswith(f"{'.'.join(addons[name].split('.')[:2])}."):
            yield Problem(
                key=f"{key}.{name}",
                fault=f"is {there}, {addons[name]} was tried",
                remedy=f"aws eks update-addon --cluster-name {existing.cluster} --addon-name {name}",
            )
